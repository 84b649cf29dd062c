#include "backend/cuda/kernel_window.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "backend/cuda/cupti_api.h"
#include "base/error.h"

namespace ida::cuda {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kBufferAlignment = 64;
constexpr std::size_t kMaxTemplateChars = 96;

// ---- names ----

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : symbol;
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

// Index of the bracket that closes the one at `open`; the end of the text where none does.
std::size_t closing(std::string_view text, std::size_t open, char opening, char closing_char) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opening) ++depth;
    if (text[i] == closing_char && --depth == 0) return i;
  }
  return text.size();
}

}  // namespace

std::string kernel_name(const char* symbol) {
  std::string name = demangled(symbol);
  erase_all(name, "(anonymous namespace)::");
  // A function template is printed with its return type, which for a kernel is void.
  if (name.starts_with("void ")) name.erase(0, 5);
  if (const std::size_t open = name.find('<'); open != std::string::npos) {
    const std::size_t close = closing(name, open, '<', '>');
    name.resize(std::min(close + 1, name.size()));
    if (name.size() - open > kMaxTemplateChars) name.replace(open, std::string::npos, "<...>");
  } else if (const std::size_t parameters = name.find('('); parameters != std::string::npos) {
    name.resize(parameters);
  }
  return name;
}

namespace {

// ---- records ----

// CUPTI's callbacks carry no context, so what they write to is the process's.
struct Collector {
  std::mutex mutex;
  bool registered = false;
  bool open = false;
  runtime::KernelTotals counts;
  std::size_t dropped = 0;
};

Collector& collector() {
  static auto* const instance = new Collector;  // CUPTI's thread may outlive static destruction
  return *instance;
}

void check_cupti(CUptiResult result, std::string_view call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cupti()->get_result_string(result, &text);
  fail_runtime("[cupti] {} failed: {} {}", call, static_cast<int>(result), text == nullptr ? "" : text);
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid_bytes) {
  Collector& all = collector();
  const std::lock_guard lock(all.mutex);
  CUpti_Activity* record = nullptr;
  while (all.open && cupti()->activity_get_next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    // Later layouts only append to this one.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    if (kernel->name == nullptr) continue;
    runtime::KernelTotal& total = all.counts[kernel_name(kernel->name)];
    ++total.launches;
    total.milliseconds += static_cast<double>(kernel->end - kernel->start) / 1e6;
  }
  std::size_t dropped = 0;
  if (cupti()->activity_get_num_dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) all.dropped += dropped;
  std::free(buffer);
}

void flush() { check_cupti(cupti()->activity_flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll"); }

}  // namespace

void KernelWindow::start() {
  if (cupti() == nullptr) fail_runtime("[cupti] kernels cannot be counted: {}", cupti_search_report());
  Collector& all = collector();
  if (all.open) fail_runtime("[cupti] another window of kernels is open");
  if (!all.registered) {
    check_cupti(cupti()->activity_register_callbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
    all.registered = true;
  }
  check_cupti(cupti()->activity_enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
  flush();  // what an earlier window left
  const std::lock_guard lock(all.mutex);
  all.counts.clear();
  all.dropped = 0;
  all.open = open_ = true;
}

runtime::KernelTotals KernelWindow::stop() {
  if (!open_) fail_runtime("[cupti] no window of kernels is open");
  flush();
  check_cupti(cupti()->activity_disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityDisable");
  Collector& all = collector();
  const std::lock_guard lock(all.mutex);
  all.open = open_ = false;
  if (all.dropped > 0) fail_runtime("[cupti] {} records of kernels were dropped", all.dropped);
  return std::move(all.counts);
}

KernelWindow::~KernelWindow() {
  if (!open_) return;
  cupti()->activity_disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  Collector& all = collector();
  const std::lock_guard lock(all.mutex);
  all.open = false;
}

}  // namespace ida::cuda

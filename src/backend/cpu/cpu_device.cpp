#include "backend/cpu/cpu_device.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <string_view>

#include "backend/cpu/isa.h"
#include "backend/cpu/onednn.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/units.h"

namespace ida::cpu {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of the first line "key : value" of a /proc file, or empty.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

std::optional<std::int64_t> parse_leading_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) return std::nullopt;
  return value;
}

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// The smallest memory limit from this process's cgroup up to the root. cgroup v2: "0::/path" in /proc/self/cgroup;
// v1: "N:memory:/path". A file that says "max" or cannot be read sets no limit.
std::int64_t cgroup_limit_bytes() {
  std::int64_t limit = kNoLimit;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool v2 = line.starts_with("0::");
    const std::size_t v1_key = line.find(":memory:");
    if (!v2 && v1_key == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string file = v2 ? "/memory.max" : "/memory.limit_in_bytes";
    std::string group = line.substr(v2 ? 3 : v1_key + 8);
    while (true) {
      if (group == "/") group.clear();
      if (const auto value = parse_leading_integer(first_line(root + group + file))) limit = std::min(limit, *value);
      if (group.empty()) break;
      group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
    }
  }
  return limit;
}

std::int64_t usable_memory_bytes() {
  const std::int64_t physical = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(physical, cgroup_limit_bytes());
}

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string cpu_name() {
  std::string name = proc_value("/proc/cpuinfo", "model name");
  return name.empty() ? "cpu" : name;
}

}  // namespace

runtime::DeviceInfo detect_cpu(const CpuDeviceOptions& options) {
  runtime::DeviceInfo info;
  info.backend = runtime::BackendKind::kCpu;
  info.name = cpu_name();
  info.memory_bytes = usable_memory_bytes();
  info.num_cores = usable_cores();
  info.cpu = options.isa ? *options.isa : detect_isa();
  if (options.open_onednn && onednn() != nullptr) info.onednn_version = onednn()->version();
  return info;
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options) : info_(detect_cpu(options)) {}

void* CpuDevice::allocate(std::int64_t size_bytes) {
  if (size_bytes <= 0) return nullptr;
  const std::string available = proc_value("/proc/meminfo", "MemAvailable");
  if (size_bytes > info_.memory_bytes) {
    fail_runtime(
        "[cpu] cannot allocate {} bytes ({:.2f} GiB): the process may use {:.2f} GiB (available now: {}); reduce "
        "train.micro_batch_sequences or the model",
        size_bytes, gib(size_bytes), gib(info_.memory_bytes), available);
  }
  void* memory =
      mmap(nullptr, static_cast<std::size_t>(size_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail_runtime(
        "[cpu] mmap of {} bytes ({:.2f} GiB) failed: {} (available now: {}); reduce train.micro_batch_sequences "
        "or the model",
        size_bytes, gib(size_bytes), std::strerror(errno), available);
  }
  return memory;
}

void CpuDevice::release(void* memory, std::int64_t size_bytes) {
  if (memory != nullptr) munmap(memory, static_cast<std::size_t>(size_bytes));
}

void CpuDevice::copy_to_device(void* device, const void* host, std::int64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(device, host, static_cast<std::size_t>(size_bytes));
}
void CpuDevice::copy_on_device(void* to, const void* from, std::int64_t size_bytes) {
  constexpr std::int64_t kPiece = 1 << 20;
  parallel_for((size_bytes + kPiece - 1) / kPiece, 1, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * kPiece;
    const std::int64_t size = std::min(last * kPiece, size_bytes) - begin;
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(size));
  });
}
double CpuDevice::time_ms(const std::function<void()>& enqueue) {
  const auto begin = std::chrono::steady_clock::now();
  enqueue();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}
void CpuDevice::copy_to_host(void* host, const void* device, std::int64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(host, device, static_cast<std::size_t>(size_bytes));
}
void* CpuDevice::allocate_host(std::int64_t size_bytes) {
  constexpr std::align_val_t kCacheLine{64};
  return ::operator new(static_cast<std::size_t>(size_bytes), kCacheLine);
}
void CpuDevice::release_host(void* memory) {
  constexpr std::align_val_t kCacheLine{64};
  ::operator delete(memory, kCacheLine);
}
void CpuDevice::fill_zero(void* device, std::int64_t size_bytes) {
  if (size_bytes > 0) std::memset(device, 0, static_cast<std::size_t>(size_bytes));
}

}  // namespace ida::cpu

#include "train/op_timer.h"

#include <algorithm>

#include "base/rng.h"
#include "formats/bf16.h"

namespace ida::train {
namespace {

constexpr std::int64_t kPatternElems = 1 << 20;
constexpr std::int64_t kRotatedBytes = std::int64_t{256} << 20;  // several times the largest cache
constexpr std::int64_t kAlignment = 256;
constexpr double kRepeatMs = 4.0;    // of calls in a row
constexpr double kBudgetMs = 200.0;  // of all repeats, beyond the first call

const std::vector<float>& pattern() {
  static const std::vector<float> values = [] {
    std::vector<float> v(kPatternElems);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = normal_at(1, 0, i);
    return v;
  }();
  return values;
}

double unit_of(const std::string& unit) { return unit == "GB/s" ? 1e9 : 1e12; }

}  // namespace

TensorView Operands::random(DType dtype, std::int64_t rows, std::int64_t cols) {
  const TensorView view = zero(dtype, rows, cols);
  if (dry()) return view;
  const std::vector<float>& values = pattern();
  std::vector<bf16> rounded;
  const void* source = values.data();
  if (dtype == DType::kBF16) {
    for (const float value : values) rounded.push_back(bf16_from_f32(value));
    source = rounded.data();
  }
  const std::int64_t total = view.size_bytes();
  std::int64_t filled = std::min(total, kPatternElems * dtype_size_bytes(dtype));
  device_.copy_to_device(view.data, source, filled);
  while (filled < total) {
    const std::int64_t more = std::min(filled, total - filled);
    device_.copy_on_device(static_cast<std::byte*>(view.data) + filled, view.data, more);
    filled += more;
  }
  return view;
}

TensorView Operands::zero(DType dtype, std::int64_t rows, std::int64_t cols) {
  return arena_.allocate(dtype, rows, cols, runtime::MemoryClass::kActivations, "operand");
}

TensorView Operands::integers(const std::vector<std::int32_t>& values) {
  return upload(DType::kI32, 1, static_cast<std::int64_t>(values.size()), values.data());
}

TensorView Operands::upload(DType dtype, std::int64_t rows, std::int64_t cols, const void* values) {
  const TensorView view = zero(dtype, rows, cols);
  if (!dry()) device_.copy_to_device(view.data, values, view.size_bytes());
  return view;
}

OpTimer::Memory::Memory(runtime::Device& owner, std::int64_t set_bytes, std::int64_t workspace_bytes, std::int64_t max_sets)
    : device(owner),
      num_sets(
          std::clamp<std::int64_t>((kRotatedBytes + set_bytes - 1) / std::max<std::int64_t>(set_bytes, 1), 1, max_sets)),
      size_bytes(num_sets * (set_bytes + kAlignment) + workspace_bytes + kAlignment),
      data(device.allocate(size_bytes)),
      arena(data, size_bytes) {}
OpTimer::Memory::~Memory() { device.release(data, size_bytes); }

double OpTimer::median_ms(const std::function<void(std::int64_t)>& call) {
  device_.time_ms([&] { call(0); });  // what is done once: code loaded, plans made, pages touched
  const double first_ms = device_.time_ms([&] { call(1); });
  const auto calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(kRepeatMs / std::max(first_ms, 1e-4)), 1, 1000);
  const double repeat_ms = first_ms * static_cast<double>(calls);
  const auto repeats = std::clamp<std::int64_t>(static_cast<std::int64_t>(kBudgetMs / repeat_ms), 1, repeats_);
  std::vector<double> ms;
  std::int64_t next = 2;
  for (std::int64_t r = 0; r < repeats; ++r) {
    const double total = device_.time_ms([&] {
      for (std::int64_t i = 0; i < calls; ++i) call(next++);
    });
    ms.push_back(total / static_cast<double>(calls));
  }
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

void OpTimer::add_row(const std::string& op, const std::string& problem, std::string_view impl, double work,
                      const std::function<void(std::int64_t)>& call) {
  const double ms = median_ms(call);
  const double rate = work / (ms / 1e3) / unit_of(result.unit);
  result.rows.push_back(
      {op, problem, std::string(impl), ms, work, rate, result.ceiling > 0.0 ? rate / result.ceiling : 0.0});
}

void OpTimer::measure_copy() {
  constexpr std::int64_t kCopyBytes = kRotatedBytes;
  Memory memory(device_, 2 * kCopyBytes, 0);
  result.unit = "GB/s";
  result.ceiling_of = "copy of 256 MiB within the device's memory";
  std::byte* to = static_cast<std::byte*>(memory.data) + kCopyBytes;
  const double ms = median_ms([&](std::int64_t) { device_.copy_on_device(to, memory.data, kCopyBytes); });
  result.ceiling = 2.0 * static_cast<double>(kCopyBytes) / (ms / 1e3) / 1e9;
}

void OpTimer::measure_square_product(DType dtype) {
  const std::int64_t n = device_.info().backend == runtime::BackendKind::kCpu ? 512 : 8192;
  const ops::GemmDesc desc{
      .m = n, .n = n, .k = n, .b_transposed = true, .a_dtype = dtype, .b_dtype = dtype, .c_dtype = dtype};
  result.unit = "TFLOP/s";
  result.ceiling_of = desc.to_string();
  time<ops::GemmDesc, ops::GemmArgs>(
      "square product", backend_.gemm, desc, 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n),
      [&](Operands& o) {
        return ops::GemmArgs{.a = o.random(dtype, n, n), .b = o.random(dtype, n, n), .c = o.zero(dtype, n, n), .bias = {}};
      });
  for (const OpBenchRow& row : result.rows) result.ceiling = std::max(result.ceiling, row.rate);
  for (OpBenchRow& row : result.rows) row.ratio = row.rate / result.ceiling;
}

}  // namespace ida::train

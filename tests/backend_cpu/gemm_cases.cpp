#include "backend_cpu/gemm_cases.h"

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/gemm_blocked.h"
#include "backend/cpu/gemm_definition.h"
#include "backend/cpu/gemm_onednn.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/onednn.h"
#include "base/rng.h"
#include "formats/bf16.h"

namespace ida::cpu::test {
namespace {

constexpr std::uint32_t kGapBits = 0x7FC1A5A5;  // a NaN: reading it shows, and it must survive

OneDnn* library_at(const std::string& path) {
  static std::map<std::string, OneDnn*> opened;
  if (const auto found = opened.find(path); found != opened.end()) return found->second;
  std::string reason;
  return opened[path] = open_onednn(path, reason).release();
}

void add_onednn(std::vector<Engine>& list, const GemmImpl& impl) {
  const runtime::DeviceInfo device = detect_cpu();
  if (onednn() != nullptr) list.push_back({"onednn" + device.onednn_version.substr(0, 1), impl, device, {}});
  const std::string path = IDA_ONEDNN3_LIBRARY;
  if (path.empty() || library_at(path) == nullptr) return;
  list.push_back({"onednn3_given", impl, device, path});
  list.back().device.onednn_version = library_at(path)->version();
}

}  // namespace

std::vector<Engine> engines(bool bf16) {
  std::vector<Engine> list;
  const runtime::CpuIsa machine = detect_isa();
  for (const IsaLevel level : {IsaLevel::kBaseline, IsaLevel::kAvx2, IsaLevel::kAvx512}) {
    const runtime::CpuIsa isa = limit_isa(machine, level);
    if (isa_level(isa) != level) continue;
    const CpuDeviceOptions options{.isa = isa, .open_onednn = false};
    list.push_back({fmt::format("blocked_{}", isa_level_name(level)),
                    bf16 ? gemm_blocked_bf16_widened() : gemm_blocked_f32(),
                    detect_cpu(options),
                    {}});
  }
  if (!bf16) add_onednn(list, gemm_onednn_f32());
  if (bf16 && machine.amx_bf16) add_onednn(list, gemm_onednn_bf16());
  return list;
}

void PrintTo(const Engine& engine, std::ostream* out) { *out << engine.name; }

UseEngine::UseEngine(const Engine& engine) {
  if (engine.onednn_path.empty()) return;
  changed_ = true;
  before_ = use_onednn(library_at(engine.onednn_path));
}
UseEngine::~UseEngine() {
  if (changed_) use_onednn(static_cast<OneDnn*>(before_));
}

Matrix::Matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap) {
  const std::int64_t stride = cols + gap;
  memory_.assign(static_cast<std::size_t>((rows * stride * dtype_size_bytes(dtype) + 3) / 4 + 1), kGapBits);
  shape_ = {nullptr, dtype, rows, cols, stride};
}

TensorView Matrix::view() const {
  TensorView own = shape_;
  own.data = const_cast<std::uint32_t*>(memory_.data());
  return own;
}

void Matrix::fill(Values values, std::uint64_t stream) {
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    for (std::int64_t col = 0; col < shape_.cols; ++col) {
      const auto index = static_cast<std::uint64_t>(row * shape_.cols + col);
      const float unit = uniform_from_bits(philox4x32(42, stream, index)[0]);
      set(row, col, values == Values::kUniform ? 2.0f * unit - 1.0f : std::floor(9.0f * unit) - 4.0f);
    }
  }
}

float Matrix::at(std::int64_t row, std::int64_t col) const {
  const std::int64_t index = row * shape_.row_stride + col;
  return shape_.dtype == DType::kBF16 ? to_f32(view().as<bf16>()[index]) : view().as<float>()[index];
}

void Matrix::set(std::int64_t row, std::int64_t col, float value) {
  const std::int64_t index = row * shape_.row_stride + col;
  if (shape_.dtype == DType::kBF16) {
    view().as<bf16>()[index] = bf16_from_f32(value);
  } else {
    view().as<float>()[index] = value;
  }
}

bool Matrix::gaps_untouched() const {
  const auto size = static_cast<std::size_t>(dtype_size_bytes(shape_.dtype));
  const auto* bytes = reinterpret_cast<const std::byte*>(memory_.data());
  const std::vector<std::uint32_t> expected(memory_.size(), kGapBits);
  const auto* expected_bytes = reinterpret_cast<const std::byte*>(expected.data());
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    const auto begin = static_cast<std::size_t>(row * shape_.row_stride + shape_.cols) * size;
    const auto end = static_cast<std::size_t>((row + 1) * shape_.row_stride) * size;
    if (std::memcmp(bytes + begin, expected_bytes + begin, end - begin) != 0) return false;
  }
  return memory_.back() == kGapBits;
}

Problem::Problem(const ops::GemmDesc& gemm, Values values, float factor, std::int64_t gap)
    : desc(gemm),
      a(gemm.a_dtype, gemm.a_transposed ? gemm.k : gemm.m, gemm.a_transposed ? gemm.m : gemm.k, gap),
      b(gemm.b_dtype, gemm.b_transposed ? gemm.n : gemm.k, gemm.b_transposed ? gemm.k : gemm.n, gap),
      c(gemm.c_dtype, gemm.m, gemm.n, gap),
      bias(gemm.b_dtype, 1, gemm.n, gap),
      residual(gemm.c_dtype, gemm.m, gemm.n, gap + 2),
      alpha(factor) {
  a.fill(values, 1);
  b.fill(values, 2);
  if (gemm.accumulate) c.fill(values, 3);
  bias.fill(values, 4);
  residual.fill(values, 5);
}

ops::GemmArgs Problem::args() const {
  return {.a = a.view(),
          .b = b.view(),
          .c = c.view(),
          .bias = desc.has_bias ? bias.view() : TensorView{},
          .residual = desc.has_residual ? residual.view() : TensorView{},
          .alpha = &alpha};
}

void run(const Engine& engine, Problem& problem) {
  const UseEngine use(engine);
  ASSERT_FALSE(engine.impl.supports(problem.desc, engine.device)) << problem.desc.to_string();
  const std::int64_t size_bytes = engine.impl.workspace_bytes(problem.desc, engine.device);
  constexpr std::size_t kCanary = 64;
  const std::size_t allocated = (static_cast<std::size_t>(size_bytes) + kCanary + 63) / 64 * 64;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(static_cast<std::byte*>(std::aligned_alloc(64, allocated)),
                                                           std::free);
  std::memset(memory.get(), 0xFF, allocated);  // NaN in f32 and bf16: nothing may rely on a cleared workspace
  engine.impl.run(problem.desc, problem.args(), {engine.device, {memory.get(), static_cast<std::size_t>(size_bytes)}});
  for (std::size_t i = static_cast<std::size_t>(size_bytes); i < allocated; ++i) {
    ASSERT_EQ(memory.get()[i], std::byte{0xFF}) << "the workspace was overrun";
  }
  ASSERT_TRUE(problem.c.gaps_untouched()) << "elements between the rows of C were written";
}

Problem definition_of(Problem problem) {
  const runtime::DeviceInfo device;
  gemm_definition().run(problem.desc, problem.args(), {device, {}});
  return problem;
}

std::int64_t count_different_bits(const Matrix& x, const Matrix& y) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < x.view().rows; ++row) {
    for (std::int64_t col = 0; col < x.view().cols; ++col) {
      count += std::bit_cast<std::uint32_t>(x.at(row, col)) != std::bit_cast<std::uint32_t>(y.at(row, col)) ? 1 : 0;
    }
  }
  return count;
}

// A chain of j f32 additions of products errs by at most (j + 1) u sum|a b|, u = 2^-24 (Higham, Accuracy and
// Stability, 3.1). The longest chain of any engine here is k; the epilogue adds three roundings of f32. In bf16 two
// close values may round to neighbours, which are 2^-7 of the value apart at most.
double worst_error_over_bound(const Problem& computed, const Problem& expected) {
  constexpr double kUnit = 0x1.0p-24;
  const ops::GemmDesc& desc = computed.desc;
  double worst = 0.0;
  for (std::int64_t row = 0; row < desc.m; ++row) {
    for (std::int64_t col = 0; col < desc.n; ++col) {
      double size = 0.0;
      for (std::int64_t k = 0; k < desc.k; ++k) {
        const float a = desc.a_transposed ? computed.a.at(k, row) : computed.a.at(row, k);
        const float b = desc.b_transposed ? computed.b.at(col, k) : computed.b.at(k, col);
        size += std::abs(static_cast<double>(a) * b);
      }
      size *= std::abs(computed.alpha);
      const double value = expected.c.at(row, col);
      double bound = (static_cast<double>(desc.k) + 4.0) * kUnit * size + 4.0 * kUnit * (std::abs(value) + 2.0);
      if (desc.c_dtype == DType::kBF16) bound += 0x1.0p-7 * std::abs(value);
      worst = std::max(worst, std::abs(computed.c.at(row, col) - value) / bound);
    }
  }
  return worst;
}

std::vector<ops::GemmDesc> all_forms(std::int64_t m, std::int64_t n, std::int64_t k, bool bf16) {
  std::vector<ops::GemmDesc> forms;
  const DType type = bf16 ? DType::kBF16 : DType::kF32;
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const DType c_dtype : {DType::kF32, DType::kBF16}) {
        ops::GemmDesc desc{.m = m,
                           .n = n,
                           .k = k,
                           .a_transposed = a_transposed,
                           .b_transposed = b_transposed,
                           .a_dtype = type,
                           .b_dtype = type,
                           .c_dtype = c_dtype};
        forms.push_back(desc);
        desc.has_bias = true;
        forms.push_back(desc);
        desc.has_residual = true;
        forms.push_back(desc);
        desc.has_bias = false;
        forms.push_back(desc);
        desc.has_residual = false;
        desc.accumulate = true;
        forms.push_back(desc);
      }
    }
  }
  return forms;
}

}  // namespace ida::cpu::test

// What the tests of the CPU ops share: tensors with NaN around and inside, running an implementation on an exactly
// sized workspace, every (implementation, instruction set) this machine has, relative errors, numeric gradients.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/tensor.h"
#include "formats/bf16.h"
#include "ops/impl_list.h"

namespace ida::cpu {

inline constexpr double kF32Eps = 0x1.0p-24;  // half a step at 1: the error of one rounding
inline constexpr double kBf16Eps = 0x1.0p-9;

// A matrix of its own memory, rows `padding` elements apart; everything starts as NaN.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0)
      : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + padding) {
    bytes_.assign(static_cast<std::size_t>(rows * stride_ * dtype_size_bytes(dtype)), std::byte{0xFF});
  }
  TensorView view() const { return {const_cast<std::byte*>(bytes_.data()), dtype_, rows_, cols_, stride_}; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  double at(std::int64_t row, std::int64_t col) const {
    const std::int64_t i = row * stride_ + col;
    switch (dtype_) {
      case DType::kF32: return static_cast<double>(reinterpret_cast<const float*>(bytes_.data())[i]);
      case DType::kBF16: return static_cast<double>(to_f32(reinterpret_cast<const bf16*>(bytes_.data())[i]));
      case DType::kF64: return reinterpret_cast<const double*>(bytes_.data())[i];
      default: return reinterpret_cast<const std::int32_t*>(bytes_.data())[i];
    }
  }
  void set(std::int64_t row, std::int64_t col, double value) {
    const std::int64_t i = row * stride_ + col;
    switch (dtype_) {
      case DType::kF32: reinterpret_cast<float*>(bytes_.data())[i] = static_cast<float>(value); break;
      case DType::kBF16: reinterpret_cast<bf16*>(bytes_.data())[i] = bf16_from_f32(static_cast<float>(value)); break;
      case DType::kF64: reinterpret_cast<double*>(bytes_.data())[i] = value; break;
      default: reinterpret_cast<std::int32_t*>(bytes_.data())[i] = static_cast<std::int32_t>(value);
    }
  }
  HostTensor& fill(double value) {
    for_each([&](std::int64_t r, std::int64_t c) { set(r, c, value); });
    return *this;
  }
  HostTensor& randomize(std::uint64_t stream, double scale = 1.0, double mean = 0.0) {
    for_each([&](std::int64_t r, std::int64_t c) {
      set(r, c, mean + scale * static_cast<double>(normal_at(7, stream, static_cast<std::uint64_t>(r * cols_ + c))));
    });
    return *this;
  }
  std::vector<double> values() const {
    std::vector<double> out;
    for_each([&](std::int64_t r, std::int64_t c) { out.push_back(at(r, c)); });
    return out;
  }
  void assign(const std::vector<double>& values) {
    std::size_t i = 0;
    for_each([&](std::int64_t r, std::int64_t c) { set(r, c, values[i++]); });
  }
  template <typename Body>
  void for_each(Body&& body) const {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < cols_; ++c) body(r, c);
    }
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  DType dtype_ = DType::kF32;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::int64_t stride_ = 0;
  std::vector<std::byte> bytes_;
};

// Same bits, padding included (which an op must not touch).
inline bool same_bits(const HostTensor& a, const HostTensor& b) { return a.bytes() == b.bytes(); }

inline std::vector<runtime::DeviceInfo> devices_of_every_isa() {
  std::vector<runtime::DeviceInfo> devices;
  const runtime::CpuIsa isa = detect_isa();
  for (const IsaLevel level : {IsaLevel::kAvx512, IsaLevel::kAvx2, IsaLevel::kBaseline}) {
    runtime::DeviceInfo device;
    device.cpu = limit_isa(isa, level);
    if (isa_level(device.cpu) == level) devices.push_back(device);
  }
  return devices;
}

// Runs on a workspace of exactly the declared size, NaN inside, with a guard behind it.
template <typename Desc, typename Args>
void run_impl(const ops::Impl<Desc, Args>& impl, const Desc& desc, const Args& args, const runtime::DeviceInfo& device) {
  ASSERT_FALSE(impl.supports(desc, device)) << impl.name;
  const std::int64_t size = impl.workspace_bytes == nullptr ? 0 : impl.workspace_bytes(desc, device);
  constexpr std::size_t kGuard = 256;
  std::vector<std::byte> memory(static_cast<std::size_t>(size) + 64 + kGuard, std::byte{0xFF});
  std::byte* begin = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  impl.run(desc, args, {device, {begin, static_cast<std::size_t>(size)}});
  for (std::size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(begin[static_cast<std::size_t>(size) + i], std::byte{0xFF}) << impl.name << " wrote past its workspace";
  }
}

// Calls body(run) for every implementation on every instruction set; run(desc, args) executes it.
template <typename Desc, typename Args, typename Body>
void for_every_impl(const ops::ImplList<Desc, Args>& list, Body&& body) {
  for (const runtime::DeviceInfo& device : devices_of_every_isa()) {
    for (const auto& impl : list) {
      SCOPED_TRACE(std::string(impl.name) + " on " + std::string(isa_level_name(isa_level(device.cpu))));
      body([&](const Desc& desc, const Args& args) { run_impl(impl, desc, args, device); });
    }
  }
}

// Norm of the difference over the norm of `expected`.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

// Norm of the error that rounding `exact` once to bf16 makes, over its norm: the same-precision baseline.
inline double bf16_rounding_error(const std::vector<double>& exact) {
  std::vector<double> rounded;
  for (const double x : exact) rounded.push_back(static_cast<double>(to_f32(bf16_from_f32(static_cast<float>(x)))));
  return relative_error(rounded, exact);
}

// Central differences of a scalar function, f64. Step 1e-5: truncation ~1e-10 and rounding ~1e-11 of the values.
inline std::vector<double> numeric_gradient(const std::vector<double>& x,
                                            const std::function<double(const std::vector<double>&)>& loss) {
  std::vector<double> gradient(x.size());
  std::vector<double> moved = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    constexpr double kStep = 1e-5;
    moved[i] = x[i] + kStep;
    const double above = loss(moved);
    moved[i] = x[i] - kStep;
    gradient[i] = (above - loss(moved)) / (2.0 * kStep);
    moved[i] = x[i];
  }
  return gradient;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Runs `produce` with 1, 2 and 3 threads and then 30 times with 2: every result has the bits of the first.
inline void expect_same_bits_whatever_the_threads(const std::function<std::vector<HostTensor>()>& produce) {
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<HostTensor> expected = produce();
  const auto check = [&](int threads) {
    set_num_threads(threads);
    const std::vector<HostTensor> got = produce();
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(same_bits(got[i], expected[i])) << threads << " threads";
  };
  check(3);
  for (int repeat = 0; repeat < 30; ++repeat) check(2);
  set_num_threads(before);
}

}  // namespace ida::cpu

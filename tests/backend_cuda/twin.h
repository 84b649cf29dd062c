// The same op on the processor and on the GPU: twin tensors, two contexts.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_backend.h"
#include "base/rng.h"
#include "formats/bf16.h"
#include "ops/context.h"

namespace ida::cuda {

inline constexpr std::int64_t kArenaBytes = std::int64_t{1} << 30;

// A device with memory and a context on it.
class Side {
 public:
  Side(std::unique_ptr<runtime::Device> device, ops::Backend backend)
      : device_(std::move(device)),
        backend_(std::move(backend)),
        memory_(device_->allocate(kArenaBytes)),
        arena_(memory_, kArenaBytes),
        context(device_->info(), backend_, arena_, device_->queue()) {}
  ~Side() { device_->release(memory_, kArenaBytes); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  runtime::Device& device() { return *device_; }
  const ops::Backend& backend() const { return backend_; }
  runtime::Arena& arena() { return arena_; }

 private:
  std::unique_ptr<runtime::Device> device_;
  ops::Backend backend_;
  void* memory_;
  runtime::Arena arena_;

 public:
  ops::Context context;
};

// A [rows, cols] matrix on both sides, `padding` elements between rows; everything starts as NaN (integers: -1).
class Twin {
 public:
  Twin(Side& cpu_side, Side& gpu_side, DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0)
      : cpu_side_(cpu_side), gpu_side_(gpu_side), padding_(padding) {
    for (auto [view, side] : {std::pair{&cpu, &cpu_side_}, {&gpu, &gpu_side_}}) {
      *view = side->arena().allocate(dtype, rows, cols + padding, runtime::MemoryClass::kActivations, "twin");
      view->cols = cols;
    }
    std::vector<std::byte> poison(static_cast<std::size_t>(bytes()), std::byte{0xff});
    write(poison);
  }

  Twin& fill(const std::vector<float>& values) {
    std::vector<std::byte> raw = read(cpu_side_, cpu);
    for (std::int64_t i = 0; i < cpu.numel(); ++i) put(raw, i, values[static_cast<std::size_t>(i)]);
    write(raw);
    return *this;
  }
  // Normal values times `scale`; each seed is another tensor.
  Twin& random(std::uint64_t seed, float scale = 1.0f, float offset = 0.0f) {
    std::vector<float> values(static_cast<std::size_t>(cpu.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = offset + scale * normal_at(seed, 7, i);
    return fill(values);
  }
  Twin& fill_ints(const std::vector<std::int32_t>& values) {
    std::vector<std::byte> raw(values.size() * sizeof(std::int32_t));
    std::memcpy(raw.data(), values.data(), raw.size());
    write(raw);
    return *this;
  }

  // The bytes of the whole matrix.
  Twin& fill_bytes(const void* values) {
    const auto* first = static_cast<const std::byte*>(values);
    write({first, first + bytes()});
    return *this;
  }

  std::vector<float> cpu_values() { return values(read(cpu_side_, cpu)); }
  std::vector<float> gpu_values() { return values(read(gpu_side_, gpu)); }
  std::vector<std::byte> gpu_bytes() { return read(gpu_side_, gpu); }

  // |gpu - cpu| / |cpu| by norms; infinite when the GPU's has a value that is not finite where the CPU's is.
  double error() {
    const std::vector<float> want = cpu_values();
    const std::vector<float> got = gpu_values();
    double difference = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (std::isfinite(want[i]) && !std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
      difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  }
  // |gpu - cpu| by norms, of finite values.
  double distance() {
    const std::vector<float> want = cpu_values();
    const std::vector<float> got = gpu_values();
    double squares = 0.0;
    for (std::size_t i = 0; i < want.size(); ++i) squares += std::pow(static_cast<double>(got[i]) - want[i], 2);
    return std::sqrt(squares);
  }
  bool same_bits() { return read(cpu_side_, cpu) == read(gpu_side_, gpu); }
  // The bytes between rows still hold what they were filled with.
  bool padding_untouched() {
    const std::vector<std::byte> raw = read(gpu_side_, gpu);
    const std::int64_t size = dtype_size_bytes(gpu.dtype);
    for (std::int64_t row = 0; row < gpu.rows; ++row)
      for (std::int64_t b = gpu.cols * size; b < (gpu.cols + padding_) * size; ++b)
        if (raw[static_cast<std::size_t>(row * (gpu.cols + padding_) * size + b)] != std::byte{0xff}) return false;
    return true;
  }

  TensorView cpu, gpu;

 private:
  std::int64_t bytes() const { return cpu.rows * (cpu.cols + padding_) * dtype_size_bytes(cpu.dtype); }
  void write(const std::vector<std::byte>& raw) {
    cpu_side_.device().copy_to_device(cpu.data, raw.data(), bytes());
    gpu_side_.device().copy_to_device(gpu.data, raw.data(), bytes());
  }
  std::vector<std::byte> read(Side& side, const TensorView& view) const {
    std::vector<std::byte> raw(static_cast<std::size_t>(bytes()));
    side.device().copy_to_host(raw.data(), view.data, bytes());
    return raw;
  }
  std::size_t offset(std::int64_t i) const {
    return static_cast<std::size_t>((i / cpu.cols * (cpu.cols + padding_) + i % cpu.cols) * dtype_size_bytes(cpu.dtype));
  }
  void put(std::vector<std::byte>& raw, std::int64_t i, float value) const {
    const bf16 rounded = bf16_from_f32(value);
    if (cpu.dtype == DType::kBF16)
      std::memcpy(raw.data() + offset(i), &rounded, sizeof(rounded));
    else
      std::memcpy(raw.data() + offset(i), &value, sizeof(value));
  }
  std::vector<float> values(const std::vector<std::byte>& raw) const {
    std::vector<float> out(static_cast<std::size_t>(cpu.numel()));
    for (std::int64_t i = 0; i < cpu.numel(); ++i) {
      if (cpu.dtype == DType::kBF16) {
        bf16 value;
        std::memcpy(&value, raw.data() + offset(i), sizeof(value));
        out[static_cast<std::size_t>(i)] = to_f32(value);
      } else if (cpu.dtype == DType::kF64) {
        double value;
        std::memcpy(&value, raw.data() + offset(i), sizeof(value));
        out[static_cast<std::size_t>(i)] = static_cast<float>(value);
      } else {
        std::memcpy(&out[static_cast<std::size_t>(i)], raw.data() + offset(i), sizeof(float));
      }
    }
    return out;
  }

  Side& cpu_side_;
  Side& gpu_side_;
  std::int64_t padding_;
};

// Skips where there is no GPU.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const CudaSearch search = detect_cuda();
    if (!search.device) GTEST_SKIP() << "no CUDA device: " << search.reason;
    gpu_ = std::make_unique<Side>(open_cuda(*search.device), make_cuda_backend(*search.device));
    auto device = std::make_unique<cpu::CpuDevice>();
    ops::Backend backend = cpu::make_cpu_backend(device->info());
    cpu_ = std::make_unique<Side>(std::move(device), std::move(backend));
  }
  Twin twin(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0) {
    return {*cpu_, *gpu_, dtype, rows, cols, padding};
  }
  ops::Context& cpu() { return cpu_->context; }
  ops::Context& gpu() { return gpu_->context; }

  // Both sides do the same f32 arithmetic in another order; a bf16 result differs where that moves a value across a
  // rounding boundary, by one step of 2^-8.
  static double bar(DType dtype) { return dtype == DType::kBF16 ? 1e-3 : 2e-6; }

  std::unique_ptr<Side> cpu_;
  std::unique_ptr<Side> gpu_;
};

}  // namespace ida::cuda

// Quantises a matrix of host memory on a device and brings everything back: what checks and probes look at.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "ops/backend.h"
#include "runtime/device.h"

namespace ida::precision {

struct HostQuantizeOptions {
  bool transposed = false;  // the quantisation of x^T
  formats::ScaleLayout layout = formats::ScaleLayout::kRows;
  std::optional<std::int32_t> prescale = {};  // an exponent
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;
  std::uint64_t step = 0;
};

struct HostQuantized {
  std::int64_t rows = 0;  // of the quantised matrix, transposed or not
  std::int64_t k = 0;
  std::vector<std::uint8_t> codes = {};   // [rows, code_row_bytes]
  std::vector<std::uint8_t> scales = {};  // as they lie in memory
  ops::ScalesShape scales_shape = {};
  float tensor_scale = 1.0f;
  std::vector<float> values = {};  // [rows, k], widened on the device, tensor scale included

  std::uint8_t code(const formats::QuantFormat& format, std::int64_t row, std::int64_t col) const;
};

// `x` is [rows, cols] f32. Errors: kRuntime where the device has no implementation for the choices.
HostQuantized host_quantize(runtime::Device& device, const ops::Backend& backend, std::span<const float> x,
                            std::int64_t rows, std::int64_t cols, const formats::QuantFormat& format,
                            const HostQuantizeOptions& options = {});

}  // namespace ida::precision

// Quantising and widening (ops/quantize.h).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"
#include "formats/quant_format.h"
#include "formats/scale_layout.h"

namespace ida::cuda {

// What makes the bf16 matrix that is quantised where it is not read from memory (ops/pack.h).
enum class MatrixSource : std::uint8_t { kMemory, kRmsNorm, kSwiglu, kSwigluBackward };
struct ProducedMatrix {
  MatrixSource source = MatrixSource::kMemory;
  const void* x = nullptr;  // of RMSNorm [rows, cols]; else gate | up
  std::int64_t x_stride = 0;
  const void* w = nullptr;       // RMSNorm: [cols]
  const float* rstd = nullptr;   // RMSNorm: [rows]
  const void* grad_y = nullptr;  // SwiGLU backward
  std::int64_t grad_y_stride = 0;
  std::int64_t gate_cols = 0;  // SwiGLU: of gate, and of up
  void* y = nullptr;           // the matrix, written too; null: it is not kept
  std::int64_t y_stride = 0;
};

// A quantised [rows, k] matrix.
struct QuantizedMatrix {
  formats::QuantFormat format;
  formats::ScaleLayout layout = formats::ScaleLayout::kRows;
  std::uint8_t* codes = nullptr;
  std::int64_t code_stride = 0;  // bytes
  void* scales = nullptr;        // u8 or f32
  std::int64_t scale_stride = 0;
  float* tensor_scale = nullptr;
};

struct Quantize {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kBF16;
  const void* x = nullptr;
  std::int64_t x_stride = 0;
  QuantizedMatrix by_rows;
  QuantizedMatrix by_cols;
  const std::uint32_t* amax = nullptr;     // null: measured
  const std::int32_t* prescale = nullptr;  // null: none
  float* carry = nullptr;                  // null: none
  std::int64_t carry_stride = 0;
  const std::uint64_t* step = nullptr;  // null: 0
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;
  ProducedMatrix produced = {};       // instead of x
  std::uint32_t* measured = nullptr;  // quantize_measured_words, where an amax has to be measured
};

// Words of `measured`: a tensor's or rows' largest magnitudes, those of by_rows before those of by_cols.
std::int64_t quantize_measured_words(const formats::QuantFormat& by_rows, const formats::QuantFormat& by_cols,
                                     std::int64_t rows, std::int64_t cols, bool has_amax);

// Any problem.
cudaError_t launch_quantize(const Quantize& args, cudaStream_t stream);

// bf16 in tiles of 128 x 128, see quantize_tiled.cu, those at the edges in part: rows and cols are multiples of the unit,
// matrices lie on 16 bytes, bytes of scales in the layout of products on 16.
// A matrix that is produced: `amax` is given where a tensor's is needed, and no row's is. Its operands are bf16 on 16
// bytes, a gate's columns a multiple of 128.
inline constexpr int kQuantizeTile = 128;
inline constexpr int kQuantizeUnit = 32;
cudaError_t launch_quantize_tiled(const Quantize& args, cudaStream_t stream);

// MX by columns, nearest, each code stored from the register it was made in: what scattered narrow stores cost. Kept for
// bench pack.
cudaError_t launch_quantize_scattered(const Quantize& args, cudaStream_t stream);

struct Dequantize {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  QuantizedMatrix x;
  bool with_tensor_scale = true;
  DType dtype = DType::kBF16;
  void* y = nullptr;
  std::int64_t y_stride = 0;
};
cudaError_t launch_dequantize(const Dequantize& args, cudaStream_t stream);

cudaError_t launch_zero_words(std::uint32_t* words, std::int64_t count, cudaStream_t stream);

}  // namespace ida::cuda

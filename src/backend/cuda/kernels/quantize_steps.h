// The unfused preparation of quantised operands (ops/quantize_steps.h).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "formats/bf16.h"
#include "formats/quant_format.h"

namespace ida::cuda {

// Contiguous matrices.
cudaError_t launch_step_transpose(const bf16* x, bf16* out, std::int64_t rows, std::int64_t cols, cudaStream_t stream);
// `out` holds zeros before where the tensor has one scale.
cudaError_t launch_step_amax(const bf16* x, std::uint32_t* out, std::int64_t rows, std::int64_t cols,
                             const formats::QuantFormat& format, cudaStream_t stream);

struct StepQuantize {
  const bf16* x = nullptr;
  const std::uint32_t* amax = nullptr;
  const std::uint32_t* tensor_amax = nullptr;
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  formats::QuantFormat format;
};
cudaError_t launch_step_quantize(const StepQuantize& args, cudaStream_t stream);
cudaError_t launch_step_pack(const std::uint8_t* x, std::uint8_t* out, std::int64_t rows, std::int64_t cols,
                             cudaStream_t stream);
cudaError_t launch_step_swizzle(const std::uint8_t* x, std::uint8_t* out, std::int64_t rows, std::int64_t cols,
                                cudaStream_t stream);

}  // namespace ida::cuda

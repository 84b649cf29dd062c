// Between the two layouts of row statistics: attention's [rows, heads] and a library's [batch, heads, rows].
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace ida::cuda {

// out[batch, cols, rows] = in[batch, rows, cols], f32; out must not be in.
cudaError_t launch_transpose_f32(const float* in, float* out, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                                 cudaStream_t stream);

}  // namespace ida::cuda

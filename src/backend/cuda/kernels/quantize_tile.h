// The tiled quantisation by grid, a unit each: they compile side by side.
#pragma once
#include "backend/cuda/kernels/quantize_matrix.cuh"

namespace ida::cuda {

struct TileParams {
  Direction rows;
  Direction cols;
  bool has_rows = false;
  bool has_cols = false;
  ProducedMatrix produced;
};
cudaError_t launch_tiles_mx(const TileParams& params, cudaStream_t stream);
cudaError_t launch_tiles_nv(const TileParams& params, cudaStream_t stream);
cudaError_t launch_tiles_fp8(const TileParams& params, cudaStream_t stream);  // f32 scales

}  // namespace ida::cuda

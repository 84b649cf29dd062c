#include "backend/cuda/kernels/quantize_tile.cuh"

namespace ida::cuda {

cudaError_t launch_tiles_nv(const TileParams& p, cudaStream_t stream) {
  return launch_tiles<formats::E2m1, Grid::kNv>(p, stream);
}

}  // namespace ida::cuda

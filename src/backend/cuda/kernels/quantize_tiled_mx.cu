#include "backend/cuda/kernels/quantize_tile.cuh"

namespace ida::cuda {

cudaError_t launch_tiles_mx(const TileParams& p, cudaStream_t stream) {
  switch ((p.has_rows ? p.rows : p.cols).out.format.element) {
    case formats::Element::kE4m3: return launch_tiles<formats::E4m3, Grid::kMx>(p, stream);
    case formats::Element::kE5m2: return launch_tiles<formats::E5m2, Grid::kMx>(p, stream);
    default: return launch_tiles<formats::E2m1, Grid::kMx>(p, stream);
  }
}

}  // namespace ida::cuda

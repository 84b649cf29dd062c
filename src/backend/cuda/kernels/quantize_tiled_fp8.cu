#include "backend/cuda/kernels/quantize_tile.cuh"

namespace ida::cuda {
namespace {

template <typename E>
cudaError_t launch(const TileParams& p, ScaleGrid grid, cudaStream_t stream) {
  switch (grid) {
    case ScaleGrid::kVec128: return launch_tiles<E, Grid::kVec128>(p, stream);
    case ScaleGrid::kBlock128: return launch_tiles<E, Grid::kBlock128>(p, stream);
    default: return launch_tiles<E, Grid::kFixed>(p, stream);
  }
}

}  // namespace

cudaError_t launch_tiles_fp8(const TileParams& p, cudaStream_t stream) {
  const formats::QuantFormat& f = (p.has_rows ? p.rows : p.cols).out.format;
  return f.element == formats::Element::kE4m3 ? launch<formats::E4m3>(p, f.grid, stream)
                                              : launch<formats::E5m2>(p, f.grid, stream);
}

}  // namespace ida::cuda

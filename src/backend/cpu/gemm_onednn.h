// cpu.onednn.f32 and cpu.onednn.bf16 (AMX): oneDNN primitives on fixed tiles of C.
//
// C is cut into tiles of kOneDnnTileRows x kOneDnnTileCols, whatever m and the thread count; each tile is one
// single-threaded primitive over all of k on a tile of op(A) whose stride depends on k alone, so neither threads nor m nor
// strides change a bit: oneDNN picks kernels by all of them. A tile is copied where A is transposed or strided, and padded
// with zero rows at the end of m. Sums land in an f32 tile of the workspace; alpha, accumulation, bias and the one rounding
// are the own epilogue.
#pragma once
#include "ops/gemm.h"

namespace ida::cpu {

inline constexpr std::int64_t kOneDnnTileRows = 64;
inline constexpr std::int64_t kOneDnnTileCols = 256;

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_onednn_f32();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_onednn_bf16();

}  // namespace ida::cpu

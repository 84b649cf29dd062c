// cpu.blocked.f32 and cpu.blocked.bf16_widened: the own GEMM, after Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008): operands packed into panels, register tiles, cache blocks.
//
// Sums are f32 in chunks of kGemmChunk along k (gemm_kernels.h); bf16 operands are widened while they are packed, so
// that products are exact. Threads share tiles of C, never k: a row's bits depend neither on m, on its position, on
// the tiles nor on the number of threads. Decode shapes (few rows) take a path that reads B once, unpacked, and give
// the same bits.
#pragma once
#include "ops/gemm.h"

namespace ida::cpu {

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_blocked_f32();
ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_blocked_bf16_widened();

}  // namespace ida::cpu

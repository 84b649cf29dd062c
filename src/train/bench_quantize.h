// The quantisation rows of bench pack.
#pragma once
#include "train/op_timer.h"

namespace ida::train {

// Every format by rows, by columns and both, rounded and drawn, transformed, with the tensor's amax given and not; the
// variants kept as a record; widening. bf16 [rows, cols].
void bench_quantize(OpTimer& timer, std::int64_t rows, std::int64_t cols);

}  // namespace ida::train

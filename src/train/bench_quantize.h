// The quantisation rows of bench pack.
#pragma once
#include "train/op_timer.h"

namespace ida::train {

inline constexpr std::string_view kBenchFormats[] = {"mxfp8",      "mxfp8_e5m2", "mxfp4",      "nvfp4",
                                                     "fp8_tensor", "fp8_row",    "fp8_vec128", "fp8_block128"};

// Memory for a quantised [rows, k] matrix, and its bytes; none where the format's grid is kNone.
ops::QuantizedView quantized_result(Operands& operands, const formats::QuantFormat& format, formats::ScaleLayout layout,
                                    std::int64_t rows, std::int64_t k);
double quantized_bytes(const formats::QuantFormat& format, formats::ScaleLayout layout, std::int64_t rows, std::int64_t k);

// Every format by rows, by columns and both, rounded and drawn, transformed, with the tensor's amax given and not; the
// variants kept as a record; widening. bf16 [rows, cols].
void bench_quantize(OpTimer& timer, std::int64_t rows, std::int64_t cols);

// Both directions on the way out of RMSNorm, SwiGLU and their backwards, in every format, the matrix itself kept and not;
// beside them the op and the quantisation in a row. Bytes: operands once (twice where the tensor's amax comes first),
// results, the matrix where it is kept.
void bench_fused_packs(OpTimer& timer, std::int64_t rows, std::int64_t hidden, std::int64_t intermediate);

}  // namespace ida::train

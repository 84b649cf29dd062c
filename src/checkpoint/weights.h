// A model's parameters in one flat buffer laid out by a ParamTable, seen as named tensors.
#pragma once
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "checkpoint/safetensors.h"
#include "formats/bf16.h"
#include "model/param_spec.h"

namespace ida::checkpoint {

// [table.total_elems]; elements between groups are padding.
using WeightsView = std::variant<std::span<const float>, std::span<const bf16>>;

// Shape as the file has it: [cols] for vectors, else [rows, cols].
std::vector<std::int64_t> stored_shape(const model::ParamSpec& spec);
// One view per parameter, in the buffer's own dtype; `prefix` is put before the names ("exp_avg.").
std::vector<TensorSpan> tensor_spans(const model::ParamTable& table, const WeightsView& weights,
                                     const std::string& prefix = "");
// Writes all parameters as `dtype` (kF32 or kBF16), rounding f32 to nearest even; a bf16 value that was widened to f32
// comes back with the same bits, NaN included. Same metadata and order whatever the buffer's dtype.
WrittenFile write_weights(const std::string& path, const model::ParamTable& table, const WeightsView& weights, DType dtype);

// Widens F32, BF16 or F16 bytes, exactly; `out` has as many elements. Other dtypes: false.
bool widen_to_f32(const TensorSpan& tensor, std::span<float> out);

}  // namespace ida::checkpoint

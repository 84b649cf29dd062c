// What the adapters of ops::quantize and ops::pack share.
#pragma once
#include "backend/cuda/kernels/quantize.h"
#include "ops/quantize.h"

namespace ida::cuda {

Quantize quantize_problem(const ops::QuantizeDesc& desc, const ops::QuantizeArgs& args, const ops::Launch& launch);

// Why launch_quantize_tiled does not take a problem, alignment aside.
ops::Refusal refuse_quantize_tiles(const ops::QuantizeDesc& desc, const runtime::DeviceInfo& device);

// Whether a view's rows begin at multiples of `bytes`.
bool lies_on(const TensorView& view, std::int64_t bytes);
// Whether codes and scales lie as launch_quantize_tiled stores them.
bool results_on_vectors(const ops::QuantizeDesc& desc, const ops::QuantizeArgs& args);

}  // namespace ida::cuda

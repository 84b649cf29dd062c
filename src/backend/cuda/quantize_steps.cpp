#include "backend/cuda/kernels/quantize_steps.h"

#include "backend/cuda/kernels/quantize.h"
#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

cudaError_t launch(const ops::QuantizeStepDesc& d, const ops::QuantizeStepArgs& args, cudaStream_t stream) {
  switch (d.step) {
    case ops::QuantizeStep::kTranspose:
      return launch_step_transpose(args.x.as<bf16>(), args.out.as<bf16>(), d.rows, d.cols, stream);
    case ops::QuantizeStep::kAmax: {
      auto* out = static_cast<std::uint32_t*>(args.out.data);
      if (d.format.grid == formats::ScaleGrid::kTensor) {
        if (const cudaError_t error = launch_zero_words(out, 1, stream)) return error;
      }
      return launch_step_amax(args.x.as<bf16>(), out, d.rows, d.cols, d.format, stream);
    }
    case ops::QuantizeStep::kQuantize:
      return launch_step_quantize({.x = args.x.as<bf16>(),
                                   .amax = static_cast<const std::uint32_t*>(args.amax.data),
                                   .tensor_amax = static_cast<const std::uint32_t*>(args.tensor_amax.data),
                                   .codes = args.out.as<std::uint8_t>(),
                                   .scales = args.scales.data,
                                   .rows = d.rows,
                                   .cols = d.cols,
                                   .format = d.format},
                                  stream);
    case ops::QuantizeStep::kPack:
      return launch_step_pack(args.x.as<std::uint8_t>(), args.out.as<std::uint8_t>(), d.rows, d.cols, stream);
    case ops::QuantizeStep::kSwizzle:
      return launch_step_swizzle(args.x.as<std::uint8_t>(), args.out.as<std::uint8_t>(), d.rows, d.cols, stream);
  }
  return cudaErrorUnknown;
}

void run(const ops::QuantizeStepDesc& desc, const ops::QuantizeStepArgs& args, const ops::Launch& where) {
  check(launch(desc, args, stream_of(where)), "a step of quantising");
}

}  // namespace

ops::QuantizeStepList quantize_step_impls() {
  return {{.name = "own.quantize_steps", .supports = any_shape, .workspace_bytes = nullptr, .run = run}};
}

}  // namespace ida::cuda

#include "backend/cuda/kernels/cross_entropy.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void run(const ops::CrossEntropyDesc& desc, const ops::CrossEntropyArgs& args, const ops::Launch& launch) {
  check(launch_cross_entropy(desc.dtype,
                             {.rows = desc.rows,
                              .vocab_size = desc.vocab_size,
                              .with_gradient = desc.with_gradient,
                              .logits = args.logits.data,
                              .logits_stride = args.logits.row_stride,
                              .labels = args.labels.as<std::int32_t>(),
                              .ignore_label = ops::kIgnoreLabel,
                              .nll = args.nll.as<float>(),
                              .grad_scale = args.grad_scale,
                              .num_sms = launch.device.num_cores,
                              .shared_bytes_per_block = launch.device.shared_bytes_per_block},
                             stream_of(launch)),
        "cross_entropy");
}

}  // namespace

ops::CrossEntropyList cross_entropy_impls() {
  return {{.name = "own.cross_entropy", .supports = any_shape, .workspace_bytes = nullptr, .run = run}};
}

}  // namespace ida::cuda

#include "backend/cuda/kernels/optimizer.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void run(const ops::OptimizerDesc& desc, const ops::OptimizerArgs& args, const ops::Launch& launch) {
  const OptimizerStep step{.ranges = ranges_of(args.ranges),
                           .num_tensors = desc.num_tensors,
                           .num_blocks = desc.num_blocks,
                           .scalars = args.scalars.as<float>(),
                           .grad = args.grad.as<float>(),
                           .master = args.master.as<float>(),
                           .m = args.m.data,
                           .v = args.v.data,
                           .weight = args.weight.data};
  const auto launch_step = desc.kind == ops::OptimizerKind::kAdamW ? launch_adamw : launch_lion;
  check(launch_step(desc.weight_dtype, desc.state_dtype, step, stream_of(launch)), "optimizer_step");
}

}  // namespace

ops::OptimizerList optimizer_impls() {
  return {{.name = "own.optimizer", .supports = any_shape, .workspace_bytes = nullptr, .run = run}};
}

}  // namespace ida::cuda

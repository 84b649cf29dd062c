#include "backend/cuda/kernels/sum_squares.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

std::int64_t workspace_bytes(const ops::SumSquaresDesc& desc, const runtime::DeviceInfo&) {
  return desc.num_blocks * std::int64_t{sizeof(double)};
}

void run(const ops::SumSquaresDesc& desc, const ops::SumSquaresArgs& args, const ops::Launch& launch) {
  check(launch_sum_squares({.ranges = ranges_of(args.ranges),
                            .num_tensors = desc.num_tensors,
                            .num_blocks = desc.num_blocks,
                            .x = args.x.as<float>(),
                            .partials = reinterpret_cast<double*>(launch.workspace.data()),
                            .result = args.result.as<double>()},
                           stream_of(launch)),
        "sum_squares");
}

}  // namespace

ops::SumSquaresList sum_squares_impls() {
  return {{.name = "own.sum_squares", .supports = any_shape, .workspace_bytes = workspace_bytes, .run = run}};
}

}  // namespace ida::cuda

#include "backend/cuda/kernels/fill.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void fill(const ops::FillDesc& desc, const ops::FillArgs& args, const ops::Launch& launch) {
  check(launch_fill({.y = args.y.as<float>(),
                     .size = desc.size,
                     .value = args.value,
                     .std_dev = args.std_dev,
                     .seed = args.seed,
                     .stream = args.stream},
                    stream_of(launch)),
        "fill");
}

}  // namespace

ops::FillList fill_impls() {
  return {{.name = "own.fill", .supports = any_shape, .workspace_bytes = nullptr, .run = fill}};
}

}  // namespace ida::cuda

#include "backend/cuda/kernels/rope.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void run(const ops::RopeDesc& desc, const ops::RopeArgs& args, const ops::Launch& launch) {
  check(launch_rope(desc.dtype,
                    {.rows = desc.rows,
                     .num_heads = desc.num_heads,
                     .head_dim = desc.head_dim,
                     .rotary_dim = desc.rotary_dim,
                     .inverse = desc.direction == ops::RopeDirection::kInverse,
                     .x = args.x.data,
                     .x_stride = args.x.row_stride,
                     .positions = args.positions.as<std::int32_t>(),
                     .cos = args.cos.as<float>(),
                     .sin = args.sin.as<float>()},
                    stream_of(launch)),
        "rope");
}

}  // namespace

ops::RopeList rope_impls() { return {{.name = "own.rope", .supports = any_shape, .workspace_bytes = nullptr, .run = run}}; }

}  // namespace ida::cuda

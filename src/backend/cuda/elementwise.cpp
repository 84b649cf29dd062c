#include "backend/cuda/kernels/elementwise.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

Strided strided(const TensorView& view) { return {.data = view.data, .stride = view.row_stride}; }

void add(const ops::AddDesc& desc, const ops::AddArgs& args, const ops::Launch& launch) {
  check(launch_add(desc.dtype, desc.rows, desc.cols, strided(args.a), strided(args.b), strided(args.y), stream_of(launch)),
        "add");
}

void convert(const ops::ConvertDesc& desc, const ops::ConvertArgs& args, const ops::Launch& launch) {
  check(launch_convert(desc.from, desc.to, desc.accumulate, desc.rows, desc.cols, strided(args.x), strided(args.y),
                       stream_of(launch)),
        "convert");
}

std::int64_t bias_grad_workspace_bytes(const ops::BiasGradDesc& desc, const runtime::DeviceInfo&) {
  return bias_grad_blocks(desc.rows) * desc.cols * std::int64_t{sizeof(float)};
}

void bias_grad(const ops::BiasGradDesc& desc, const ops::BiasGradArgs& args, const ops::Launch& launch) {
  check(launch_bias_grad(desc.dtype,
                         {.rows = desc.rows,
                          .cols = desc.cols,
                          .grad_y = args.grad_y.data,
                          .grad_y_stride = args.grad_y.row_stride,
                          .grad_bias = args.grad_bias.as<float>(),
                          .scale = args.scale,
                          .partials = reinterpret_cast<float*>(launch.workspace.data())},
                         stream_of(launch)),
        "bias_grad");
}

}  // namespace

ops::AddList add_impls() { return {{.name = "own.add", .supports = any_shape, .workspace_bytes = nullptr, .run = add}}; }
ops::ConvertList convert_impls() {
  return {{.name = "own.convert", .supports = any_shape, .workspace_bytes = nullptr, .run = convert}};
}
ops::BiasGradList bias_grad_impls() {
  return {{.name = "own.bias_grad", .supports = any_shape, .workspace_bytes = bias_grad_workspace_bytes, .run = bias_grad}};
}

}  // namespace ida::cuda

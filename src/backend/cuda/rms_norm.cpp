#include "backend/cuda/kernels/rms_norm.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

RmsNormShape shape_of(const ops::RmsNormDesc& desc) {
  return {.rows = desc.rows, .cols = desc.cols, .groups = desc.num_groups};
}

void forward(const ops::RmsNormDesc& desc, const ops::RmsNormForwardArgs& args, const ops::Launch& launch) {
  zero_amax(args.amax, launch);
  check(launch_rms_norm_forward(desc.dtype,
                                {.shape = shape_of(desc),
                                 .x = args.x.data,
                                 .x_stride = args.x.row_stride,
                                 .w = args.w.data,
                                 .y = args.y.data,
                                 .y_stride = args.y.row_stride,
                                 .rstd = args.rstd.as<float>(),
                                 .amax = args.amax,
                                 .eps = desc.eps},
                                stream_of(launch)),
        "rms_norm_forward");
}

std::int64_t backward_workspace_bytes(const ops::RmsNormDesc& desc, const runtime::DeviceInfo& device) {
  return rms_norm_backward_blocks(shape_of(desc), device.num_cores) * desc.cols * std::int64_t{sizeof(float)};
}

void backward(const ops::RmsNormDesc& desc, const ops::RmsNormBackwardArgs& args, const ops::Launch& launch) {
  zero_amax(args.amax, launch);
  check(launch_rms_norm_backward(desc.dtype,
                                 {.shape = shape_of(desc),
                                  .grad_y = args.grad_y.data,
                                  .grad_y_stride = args.grad_y.row_stride,
                                  .x = args.x.data,
                                  .x_stride = args.x.row_stride,
                                  .w = args.w.data,
                                  .rstd = args.rstd.as<float>(),
                                  .grad_x = args.grad_x.data,
                                  .grad_x_stride = args.grad_x.row_stride,
                                  .add_to_grad_x = args.add_to_grad_x,
                                  .grad_w = args.grad_w.as<float>(),
                                  .grad_w_scale = args.grad_w_scale,
                                  .amax = args.amax,
                                  .partials = reinterpret_cast<float*>(launch.workspace.data()),
                                  .num_sms = launch.device.num_cores},
                                 stream_of(launch)),
        "rms_norm_backward");
}

}  // namespace

ops::RmsNormForwardList rms_norm_forward_impls() {
  return {{.name = "own.rms_norm", .supports = any_shape, .workspace_bytes = nullptr, .run = forward}};
}
ops::RmsNormBackwardList rms_norm_backward_impls() {
  return {{.name = "own.rms_norm", .supports = any_shape, .workspace_bytes = backward_workspace_bytes, .run = backward}};
}

}  // namespace ida::cuda

#include "backend/cuda/kernels/swiglu.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void forward(const ops::SwigluDesc& desc, const ops::SwigluForwardArgs& args, const ops::Launch& launch) {
  zero_amax(args.amax, launch);
  check(launch_swiglu_forward(desc.dtype,
                              {.rows = desc.rows,
                               .cols = desc.cols,
                               .gate_up = args.gate_up.data,
                               .gate_up_stride = args.gate_up.row_stride,
                               .y = args.y.data,
                               .y_stride = args.y.row_stride,
                               .amax = args.amax},
                              stream_of(launch)),
        "swiglu_forward");
}

void backward(const ops::SwigluDesc& desc, const ops::SwigluBackwardArgs& args, const ops::Launch& launch) {
  zero_amax(args.amax, launch);
  check(launch_swiglu_backward(desc.dtype,
                               {.rows = desc.rows,
                                .cols = desc.cols,
                                .grad_y = args.grad_y.data,
                                .grad_y_stride = args.grad_y.row_stride,
                                .gate_up = args.gate_up.data,
                                .gate_up_stride = args.gate_up.row_stride,
                                .grad_gate_up = args.grad_gate_up.data,
                                .grad_gate_up_stride = args.grad_gate_up.row_stride,
                                .amax = args.amax},
                               stream_of(launch)),
        "swiglu_backward");
}

}  // namespace

ops::SwigluForwardList swiglu_forward_impls() {
  return {{.name = "own.swiglu", .supports = any_shape, .workspace_bytes = nullptr, .run = forward}};
}
ops::SwigluBackwardList swiglu_backward_impls() {
  return {{.name = "own.swiglu", .supports = any_shape, .workspace_bytes = nullptr, .run = backward}};
}

}  // namespace ida::cuda

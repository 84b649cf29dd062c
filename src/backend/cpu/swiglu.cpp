#include "backend/cpu/swiglu.h"

#include <cmath>

#include "backend/cpu/amax.h"
#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::Launch;
using ops::SwigluBackwardArgs;
using ops::SwigluDesc;
using ops::SwigluForwardArgs;

float sigmoid(float z) { return 1.0f / (1.0f + std::exp(-z)); }

template <typename T>
void forward_plain(const SwigluDesc& desc, const SwigluForwardArgs& args) {
  for (Index row = 0; row < desc.rows; ++row) {
    const T* gate = row_of<const T>(args.gate_up, row);
    const T* up = gate + desc.cols;
    T* y = row_of<T>(args.y, row);
    for (Index c = 0; c < desc.cols; ++c) {
      const float z = to_f32(gate[c]);
      y[c] = from_f32<T>(z * sigmoid(z) * to_f32(up[c]));
    }
  }
}

// d silu(z) / dz = s (1 + z (1 - s)), s = sigmoid(z).
template <typename T>
void backward_plain(const SwigluDesc& desc, const SwigluBackwardArgs& args) {
  for (Index row = 0; row < desc.rows; ++row) {
    const T* gate = row_of<const T>(args.gate_up, row);
    const T* grad_y = row_of<const T>(args.grad_y, row);
    T* grad_gate = row_of<T>(args.grad_gate_up, row);
    for (Index c = 0; c < desc.cols; ++c) {
      const float z = to_f32(gate[c]);
      const float u = to_f32(gate[desc.cols + c]);
      const float dy = to_f32(grad_y[c]);
      const float s = sigmoid(z);
      grad_gate[c] = from_f32<T>(dy * u * s * (1.0f + z * (1.0f - s)));
      grad_gate[desc.cols + c] = from_f32<T>(dy * z * s);
    }
  }
}

void forward_definition(const SwigluDesc& desc, const SwigluForwardArgs& args, const Launch&) {
  with_element_type(desc.dtype, [&](auto type) { forward_plain<decltype(type)>(desc, args); });
  store_amax(args.amax, args.y);
}

void backward_definition(const SwigluDesc& desc, const SwigluBackwardArgs& args, const Launch&) {
  with_element_type(desc.dtype, [&](auto type) { backward_plain<decltype(type)>(desc, args); });
  store_amax(args.amax, args.grad_gate_up);
}

void forward_vector(const SwigluDesc& desc, const SwigluForwardArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  parallel_for(desc.rows, rows_per_piece(desc.cols),
               [&](Index begin, Index end) { kernels.swiglu_forward(desc, args, begin, end); });
  store_amax(args.amax, args.y);
}

void backward_vector(const SwigluDesc& desc, const SwigluBackwardArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  parallel_for(desc.rows, rows_per_piece(desc.cols),
               [&](Index begin, Index end) { kernels.swiglu_backward(desc, args, begin, end); });
  store_amax(args.amax, args.grad_gate_up);
}

}  // namespace

ops::SwigluForwardList swiglu_forward_impls() {
  return {{"cpu.vector", any_shape<SwigluDesc>, nullptr, forward_vector},
          {"cpu.definition", any_shape<SwigluDesc>, nullptr, forward_definition}};
}

ops::SwigluBackwardList swiglu_backward_impls() {
  return {{"cpu.vector", any_shape<SwigluDesc>, nullptr, backward_vector},
          {"cpu.definition", any_shape<SwigluDesc>, nullptr, backward_definition}};
}

}  // namespace ida::cpu

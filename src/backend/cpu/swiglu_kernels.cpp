#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/simd.h"

namespace {

using namespace ida;

// 1 / (1 + e^-z) through e^-|z|, which cannot overflow and keeps its relative accuracy on both sides.
inline F32 sigmoid(F32 z) {
  const F32 e = exp_nonpositive(z > 0.0f ? -z : z);
  const F32 numerator = z < 0.0f ? e : broadcast(1.0f);
  return numerator / (e + 1.0f);
}

template <typename T>
void forward_rows(const ops::SwigluDesc& desc, const ops::SwigluForwardArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gate = row_of<const T>(args.gate_up, row);
    const T* up = gate + desc.cols;
    T* y = row_of<T>(args.y, row);
    for_vectors(desc.cols, [&](std::int64_t c, auto lanes) {
      const F32 z = load(gate + c, lanes);
      store(y + c, z * sigmoid(z) * load(up + c, lanes), lanes);
    });
  }
}

template <typename T>
void backward_rows(const ops::SwigluDesc& desc, const ops::SwigluBackwardArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gate = row_of<const T>(args.gate_up, row);
    const T* up = gate + desc.cols;
    const T* grad_y = row_of<const T>(args.grad_y, row);
    T* grad_gate = row_of<T>(args.grad_gate_up, row);
    T* grad_up = grad_gate + desc.cols;
    for_vectors(desc.cols, [&](std::int64_t c, auto lanes) {
      const F32 z = load(gate + c, lanes);
      const F32 u = load(up + c, lanes);
      const F32 dy = load(grad_y + c, lanes);
      const F32 s = sigmoid(z);
      store(grad_gate + c, dy * u * s * (1.0f + z * (1.0f - s)), lanes);
      store(grad_up + c, dy * z * s, lanes);
    });
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void swiglu_forward(const ops::SwigluDesc& desc, const ops::SwigluForwardArgs& args, Index begin, Index end) {
  with_element_type(desc.dtype, [&](auto type) { forward_rows<decltype(type)>(desc, args, begin, end); });
}

void swiglu_backward(const ops::SwigluDesc& desc, const ops::SwigluBackwardArgs& args, Index begin, Index end) {
  with_element_type(desc.dtype, [&](auto type) { backward_rows<decltype(type)>(desc, args, begin, end); });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/simd.h"

namespace {

using namespace ida;

template <typename T>
void forward_items(const ops::RmsNormDesc& desc, const ops::RmsNormForwardArgs& args, std::int64_t begin,
                   std::int64_t end) {
  const T* w = static_cast<const T*>(args.w.data);
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t row = item / desc.num_groups;
    const std::int64_t group = item % desc.num_groups;
    const T* x = row_of<const T>(args.x, row) + group * desc.cols;
    T* y = row_of<T>(args.y, row) + group * desc.cols;
    const float sum = sum_vectors(desc.cols, [&](std::int64_t c, auto lanes) {
      const F32 v = load(x + c, lanes);
      return v * v;
    });
    const float rstd = 1.0f / __builtin_sqrtf(sum / static_cast<float>(desc.cols) + desc.eps);
    row_of<float>(args.rstd, row)[group] = rstd;
    for_vectors(desc.cols,
                [&](std::int64_t c, auto lanes) { store(y + c, load(x + c, lanes) * rstd * load(w + c, lanes), lanes); });
  }
}

template <typename T>
void backward_items(const ops::RmsNormDesc& desc, const ops::RmsNormBackwardArgs& args, std::int64_t begin,
                    std::int64_t end, float* grad_w_sum) {
  const T* w = static_cast<const T*>(args.w.data);
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t row = item / desc.num_groups;
    const std::int64_t offset = item % desc.num_groups * desc.cols;
    const T* x = row_of<const T>(args.x, row) + offset;
    const T* dy = row_of<const T>(args.grad_y, row) + offset;
    T* dx = row_of<T>(args.grad_x, row) + offset;
    const float rstd = row_of<const float>(args.rstd, row)[item % desc.num_groups];
    const float sum = sum_vectors(desc.cols, [&](std::int64_t c, auto lanes) {
      const F32 product = load(dy + c, lanes) * (load(x + c, lanes) * rstd);
      store(grad_w_sum + c, load(grad_w_sum + c, lanes) + product, lanes);
      return product * load(w + c, lanes);
    });
    const float mean = sum / static_cast<float>(desc.cols);
    for_vectors(desc.cols, [&](std::int64_t c, auto lanes) {
      const F32 xhat = load(x + c, lanes) * rstd;
      F32 grad = (load(dy + c, lanes) * load(w + c, lanes) - xhat * mean) * rstd;
      if (args.add_to_grad_x) grad += load(dx + c, lanes);
      store(dx + c, grad, lanes);
    });
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void rms_norm_forward(const ops::RmsNormDesc& desc, const ops::RmsNormForwardArgs& args, Index begin, Index end) {
  with_element_type(desc.dtype, [&](auto type) { forward_items<decltype(type)>(desc, args, begin, end); });
}

void rms_norm_backward(const ops::RmsNormDesc& desc, const ops::RmsNormBackwardArgs& args, Index begin, Index end,
                       float* grad_w_sum) {
  with_element_type(desc.dtype, [&](auto type) { backward_items<decltype(type)>(desc, args, begin, end, grad_w_sum); });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

#include "backend/cpu/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/amax.h"
#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::Launch;
using ops::RmsNormBackwardArgs;
using ops::RmsNormDesc;
using ops::RmsNormForwardArgs;

// ---- definition ----

template <typename T>
void forward_plain(const RmsNormDesc& desc, const RmsNormForwardArgs& args) {
  const T* w = args.w.as<T>();
  for (Index item = 0; item < desc.rows * desc.num_groups; ++item) {
    const Index row = item / desc.num_groups;
    const Index group = item % desc.num_groups;
    const T* x = row_of<const T>(args.x, row) + group * desc.cols;
    T* y = row_of<T>(args.y, row) + group * desc.cols;
    double sum = 0.0;
    for (Index c = 0; c < desc.cols; ++c) sum += static_cast<double>(to_f32(x[c])) * static_cast<double>(to_f32(x[c]));
    const double mean = sum / static_cast<double>(desc.cols);
    const float rstd = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(desc.eps)));
    row_of<float>(args.rstd, row)[group] = rstd;
    for (Index c = 0; c < desc.cols; ++c) y[c] = from_f32<T>(to_f32(x[c]) * rstd * to_f32(w[c]));
  }
}

template <typename T>
void backward_plain(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, double* grad_w_sum) {
  const T* w = args.w.as<T>();
  std::fill_n(grad_w_sum, desc.cols, 0.0);
  for (Index item = 0; item < desc.rows * desc.num_groups; ++item) {
    const Index row = item / desc.num_groups;
    const Index group = item % desc.num_groups;
    const T* x = row_of<const T>(args.x, row) + group * desc.cols;
    const T* dy = row_of<const T>(args.grad_y, row) + group * desc.cols;
    T* dx = row_of<T>(args.grad_x, row) + group * desc.cols;
    const float rstd = row_of<const float>(args.rstd, row)[group];
    double sum = 0.0;
    for (Index c = 0; c < desc.cols; ++c) {
      const double product = static_cast<double>(to_f32(dy[c])) * static_cast<double>(to_f32(x[c]) * rstd);
      grad_w_sum[c] += product;
      sum += product * static_cast<double>(to_f32(w[c]));
    }
    const float mean = static_cast<float>(sum / static_cast<double>(desc.cols));
    for (Index c = 0; c < desc.cols; ++c) {
      float grad = (to_f32(dy[c]) * to_f32(w[c]) - to_f32(x[c]) * rstd * mean) * rstd;
      if (args.add_to_grad_x) grad += to_f32(dx[c]);
      dx[c] = from_f32<T>(grad);
    }
  }
  float* grad_w = args.grad_w.as<float>();
  for (Index c = 0; c < desc.cols; ++c)
    grad_w[c] += ops::value_or_one(args.grad_w_scale) * static_cast<float>(grad_w_sum[c]);
}

void forward_definition(const RmsNormDesc& desc, const RmsNormForwardArgs& args, const Launch&) {
  with_element_type(desc.dtype, [&](auto type) { forward_plain<decltype(type)>(desc, args); });
  store_amax(args.amax, args.y);
}

std::int64_t definition_workspace(const RmsNormDesc& desc, const runtime::DeviceInfo&) {
  return WorkspaceParts::aligned(desc.cols * static_cast<std::int64_t>(sizeof(double)));
}

void backward_definition(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, const Launch& launch) {
  double* sum = WorkspaceParts(launch.workspace).take<double>(desc.cols);
  with_element_type(desc.dtype, [&](auto type) { backward_plain<decltype(type)>(desc, args, sum); });
  store_amax(args.amax, args.grad_x);
}

// ---- vector ----

void forward_vector(const RmsNormDesc& desc, const RmsNormForwardArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  parallel_for(desc.rows * desc.num_groups, rows_per_piece(desc.cols),
               [&](Index begin, Index end) { kernels.rms_norm_forward(desc, args, begin, end); });
  store_amax(args.amax, args.y);
}

// grad_w: one partial sum a block of items, added in block order. The block grows with the rows so that the partial
// sums stay below 256 rows.
constexpr Index kMinBlockItems = 32;
constexpr Index kMaxBlocks = 256;

Index block_items(const RmsNormDesc& desc) {
  return std::max(kMinBlockItems, (desc.rows * desc.num_groups + kMaxBlocks - 1) / kMaxBlocks);
}
Index num_blocks(const RmsNormDesc& desc) {
  return (desc.rows * desc.num_groups + block_items(desc) - 1) / block_items(desc);
}

std::int64_t vector_workspace(const RmsNormDesc& desc, const runtime::DeviceInfo&) {
  return WorkspaceParts::aligned(num_blocks(desc) * desc.cols * static_cast<std::int64_t>(sizeof(float)));
}

void backward_vector(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  const Index items = desc.rows * desc.num_groups;
  const Index block = block_items(desc);
  const Index blocks = num_blocks(desc);
  float* sums = WorkspaceParts(launch.workspace).take<float>(blocks * desc.cols);
  parallel_for(blocks, 1, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      float* sum = sums + i * desc.cols;
      std::fill_n(sum, desc.cols, 0.0f);
      kernels.rms_norm_backward(desc, args, i * block, std::min(items, (i + 1) * block), sum);
    }
  });
  float* grad_w = args.grad_w.as<float>();
  parallel_for(desc.cols, 256, [&](Index begin, Index end) {
    for (Index i = 1; i < blocks; ++i) {
      kernels.add_scaled(sums + begin, sums + i * desc.cols + begin, DType::kF32, 1.0f, end - begin);
    }
    if (blocks > 0)
      kernels.add_scaled(grad_w + begin, sums + begin, DType::kF32, ops::value_or_one(args.grad_w_scale), end - begin);
  });
  store_amax(args.amax, args.grad_x);
}

}  // namespace

ops::RmsNormForwardList rms_norm_forward_impls() {
  return {{"cpu.vector", any_shape<RmsNormDesc>, nullptr, forward_vector},
          {"cpu.definition", any_shape<RmsNormDesc>, nullptr, forward_definition}};
}

ops::RmsNormBackwardList rms_norm_backward_impls() {
  return {{"cpu.vector", any_shape<RmsNormDesc>, vector_workspace, backward_vector},
          {"cpu.definition", any_shape<RmsNormDesc>, definition_workspace, backward_definition}};
}

}  // namespace ida::cpu

// Bias gradient and sum of squares: fixed blocks, block sums added in order.
#include <algorithm>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::BiasGradArgs;
using ops::BiasGradDesc;
using ops::Launch;
using ops::SumSquaresArgs;
using ops::SumSquaresDesc;

// ---- bias gradient ----

constexpr Index kBiasRows = 32;     // rows of a block
constexpr Index kBiasColumns = 64;  // columns of a parallel piece

template <typename T>
void bias_grad_plain(const BiasGradDesc& desc, const BiasGradArgs& args) {
  float* grad_bias = args.grad_bias.as<float>();
  for (Index c = 0; c < desc.cols; ++c) {
    float total = 0.0f;
    for (Index block = 0; block < desc.rows; block += kBiasRows) {
      float sum = 0.0f;
      for (Index row = block; row < std::min(desc.rows, block + kBiasRows); ++row) {
        sum += to_f32(row_of<const T>(args.grad_y, row)[c]);
      }
      total += sum;
    }
    grad_bias[c] += total * ops::value_or_one(args.scale);
  }
}

void bias_grad_definition(const BiasGradDesc& desc, const BiasGradArgs& args, const Launch&) {
  with_element_type(desc.dtype, [&](auto type) { bias_grad_plain<decltype(type)>(desc, args); });
}

void bias_grad_vector(const BiasGradDesc& desc, const BiasGradArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  parallel_for(desc.cols, kBiasColumns, [&](Index first, Index last) {
    for (Index begin = first; begin < last; begin += kBiasColumns) {
      const Index size = std::min(kBiasColumns, last - begin);
      float total[kBiasColumns] = {};
      for (Index block = 0; block < desc.rows; block += kBiasRows) {
        float sum[kBiasColumns] = {};
        for (Index row = block; row < std::min(desc.rows, block + kBiasRows); ++row) {
          kernels.add_scaled(sum, element_address(args.grad_y, row, begin), desc.dtype, 1.0f, size);
        }
        kernels.add_scaled(total, sum, DType::kF32, 1.0f, size);
      }
      kernels.add_scaled(args.grad_bias.as<float>() + begin, total, DType::kF32, ops::value_or_one(args.scale), size);
    }
  });
}

// ---- sum of squares ----

constexpr Index kSquaresBlock = 4096;

ops::Refusal sum_squares_supports(const SumSquaresDesc&, const runtime::DeviceInfo&) { return ops::kAccepted; }

double square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

double block_squares(const float* x, Index size) {
  double sum = 0.0;
  for (Index i = 0; i < size; ++i) sum += square(x[i]);
  return sum;
}

// Four whole blocks side by side: four chains of additions hide their latency; the order within a block is kept.
void four_blocks(const float* x, double* sums) {
  double sum[4] = {};
  for (Index i = 0; i < kSquaresBlock; ++i) {
    for (Index block = 0; block < 4; ++block) sum[block] += square(x[block * kSquaresBlock + i]);
  }
  std::copy_n(sum, 4, sums);
}

void sum_squares_definition(const SumSquaresDesc& desc, const SumSquaresArgs& args, const Launch&) {
  const float* x = args.x.as<float>();
  double total = 0.0;
  for (Index begin = 0; begin < desc.size; begin += kSquaresBlock) {
    total += block_squares(x + begin, std::min(kSquaresBlock, desc.size - begin));
  }
  *args.result.as<double>() = total;
}

Index squares_blocks(const SumSquaresDesc& desc) { return (desc.size + kSquaresBlock - 1) / kSquaresBlock; }

std::int64_t sum_squares_workspace(const SumSquaresDesc& desc, const runtime::DeviceInfo&) {
  return WorkspaceParts::aligned(squares_blocks(desc) * static_cast<std::int64_t>(sizeof(double)));
}

void sum_squares_threaded(const SumSquaresDesc& desc, const SumSquaresArgs& args, const Launch& launch) {
  const float* x = args.x.as<float>();
  const Index blocks = squares_blocks(desc);
  double* sums = WorkspaceParts(launch.workspace).take<double>(blocks);
  parallel_for(blocks, 4, [&](Index first, Index last) {
    for (Index block = first; block < last; block += 4) {
      if (block + 4 <= last && (block + 4) * kSquaresBlock <= desc.size) {
        four_blocks(x + block * kSquaresBlock, sums + block);
        continue;
      }
      for (Index i = block; i < std::min(last, block + 4); ++i) {
        sums[i] = block_squares(x + i * kSquaresBlock, std::min(kSquaresBlock, desc.size - i * kSquaresBlock));
      }
    }
  });
  double total = 0.0;
  for (Index i = 0; i < blocks; ++i) total += sums[i];
  *args.result.as<double>() = total;
}

}  // namespace

ops::BiasGradList bias_grad_impls() {
  return {{"cpu.vector", any_shape<BiasGradDesc>, nullptr, bias_grad_vector},
          {"cpu.definition", any_shape<BiasGradDesc>, nullptr, bias_grad_definition}};
}

ops::SumSquaresList sum_squares_impls() {
  return {{"cpu.threaded", sum_squares_supports, sum_squares_workspace, sum_squares_threaded},
          {"cpu.definition", sum_squares_supports, nullptr, sum_squares_definition}};
}

}  // namespace ida::cpu

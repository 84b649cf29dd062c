#include "backend/cpu/gemm_definition.h"

#include "base/parallel.h"
#include "formats/bf16.h"

namespace ida::cpu {
namespace {

float value_at(const TensorView& tensor, std::int64_t row, std::int64_t col) {
  const std::int64_t index = row * tensor.row_stride + col;
  return tensor.dtype == DType::kBF16 ? to_f32(static_cast<const bf16*>(tensor.data)[index])
                                      : static_cast<const float*>(tensor.data)[index];
}

float dot(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::int64_t row, std::int64_t col) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < desc.k; ++k) {
    const double a = desc.a_transposed ? value_at(args.a, k, row) : value_at(args.a, row, k);
    const double b = desc.b_transposed ? value_at(args.b, col, k) : value_at(args.b, k, col);
    sum += a * b;
  }
  return static_cast<float>(sum);
}

void compute_row(const ops::GemmDesc& desc, const ops::GemmArgs& args, std::int64_t row) {
  for (std::int64_t col = 0; col < desc.n; ++col) {
    float value = ops::value_or_one(args.alpha) * dot(desc, args, row, col);
    if (desc.has_bias) value += value_at(args.bias, 0, col);
    if (desc.has_residual) value += value_at(args.residual, row, col);
    if (desc.accumulate) value += value_at(args.c, row, col);
    const std::int64_t index = row * args.c.row_stride + col;
    if (desc.c_dtype == DType::kBF16) {
      args.c.as<bf16>()[index] = bf16_from_f32(value);
    } else {
      args.c.as<float>()[index] = value;
    }
  }
}

bool is_float_type(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

ops::Refusal supports(const ops::GemmDesc& desc, const runtime::DeviceInfo&) {
  if (!is_float_type(desc.a_dtype) || !is_float_type(desc.b_dtype) || !is_float_type(desc.c_dtype)) {
    return {ops::RefusalKind::kDType, "operands must be f32 or bf16"};
  }
  return ops::kAccepted;
}

void run(const ops::GemmDesc& desc, const ops::GemmArgs& args, const ops::Launch&) {
  parallel_for(desc.m, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) compute_row(desc, args, row);
  });
}

}  // namespace

ops::Impl<ops::GemmDesc, ops::GemmArgs> gemm_definition() {
  return {"cpu.definition", supports, nullptr, run, ops::EngineKind::kEmulated};
}

}  // namespace ida::cpu

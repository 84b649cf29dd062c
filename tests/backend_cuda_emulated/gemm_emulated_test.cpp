// Products of quantised operands that no library engine takes, on the emulated device against the CPU's on the same bytes.
#include "backend/cpu/gemm_emulated.h"

#include "backend/cpu/quantize.h"
#include "backend/cuda/op_impls.h"
#include "backend_cpu/quantized_results.h"
#include "emulated_device.h"
#include "ops/gemm.h"

namespace ida::cuda {
namespace {

using namespace cpu;  // HostTensor, Results

Results quantized(const QuantFormat& format, std::int64_t rows, std::int64_t k, std::uint64_t seed, double scale) {
  const ops::QuantizeDesc desc{
      .rows = rows, .cols = k, .dtype = DType::kF32, .by_rows = format, .by_cols = {}, .layout = ScaleLayout::kProduct};
  Results results(desc);
  const HostTensor x = HostTensor(DType::kF32, rows, k).randomize(seed, scale);
  run_impl(cpu::quantize_impls().back(), desc, {.x = x.view(), .by_rows = results.by_rows.view(), .by_cols = {}},
           devices_of_every_isa()[0]);
  return results;
}

TEST(CudaGemmEmulated, AnySizeFormatAndEpilogue) {
  struct Pair {
    const char *a, *b;
  };
  for (const Pair& p : {Pair{"fp8_tensor", "fp8_tensor"},
                        {"fp8_tensor_e5m2", "fp8_tensor_e5m2"},
                        {"fp8_row", "fp8_row"},
                        {"fp8_vec128", "fp8_block128"},
                        {"mxfp8", "mxfp8_e5m2"},
                        {"mxfp4", "mxfp4"},
                        {"nvfp4", "nvfp4"}}) {
    const bool f32_scales = formats::has_f32_scales(named(p.a).grid);
    const auto impl = f32_scales ? gemm_emulated_f32() : gemm_emulated_bf16();
    const auto reference = f32_scales ? cpu::gemm_emulated_f32() : cpu::gemm_emulated_bf16(false);
    for (const bool accumulate : {false, true}) {
      constexpr std::int64_t kM = 33, kN = 70, kK = 57;
      ops::GemmDesc desc{.m = kM, .n = kN, .k = kK, .b_transposed = true, .accumulate = accumulate};
      desc.has_bias = !accumulate;
      desc.a_dtype = desc.b_dtype = DType::kU8;
      desc.a_format = named(p.a);
      desc.b_format = named(p.b);
      Results a = quantized(desc.a_format, kM, kK, 1, 1e-3), b = quantized(desc.b_format, kN, kK, 2, 30.0);
      const HostTensor bias = HostTensor(DType::kBF16, 1, kN).randomize(3, 0.1);
      HostTensor want = HostTensor(DType::kF32, kM, kN).randomize(4), got = want;
      const float alpha = 0.5f;
      const auto args = [&](const HostTensor& c) {
        return ops::GemmArgs{.a = {},
                             .b = {},
                             .c = c.view(),
                             .bias = bias.view(),
                             .alpha = &alpha,
                             .a_quantized = a.by_rows.view(),
                             .b_quantized = b.by_rows.view()};
      };
      run_impl(reference, desc, args(want), devices_of_every_isa()[0]);
      run_impl(impl, desc, args(got), emulated_device());
      EXPECT_LT(relative_error(got.values(), want.values()), 1e-6) << desc.to_string();
    }
  }
}

// bf16 does not hold what f32 scales make.
TEST(CudaGemmEmulated, Bf16RefusesF32Scales) {
  ops::GemmDesc desc{.m = 16, .n = 16, .k = 16, .b_transposed = true};
  desc.a_dtype = desc.b_dtype = DType::kU8;
  desc.a_format = desc.b_format = named("fp8_row");
  EXPECT_EQ(gemm_emulated_bf16().supports(desc, emulated_device()).kind, ops::RefusalKind::kDType);
  EXPECT_FALSE(gemm_emulated_f32().supports(desc, emulated_device()));
  desc.b_format = {};
  EXPECT_TRUE(gemm_emulated_f32().supports(desc, emulated_device()));
}

}  // namespace
}  // namespace ida::cuda

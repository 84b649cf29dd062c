// The unfused preparation gives what the fused one gives.
#include "backend/cpu/quantize.h"
#include "backend/cuda/op_impls.h"
#include "backend_cpu/op_test_support.h"
#include "emulated_device.h"

namespace ida::cuda {
namespace {

using cpu::HostTensor;
using formats::QuantFormat;
using formats::ScaleGrid;

void run_step(ops::QuantizeStep step, const HostTensor& x, const QuantFormat& format, const ops::QuantizeStepArgs& args) {
  cpu::run_impl(quantize_step_impls().front(), {.step = step, .rows = x.rows(), .cols = x.cols(), .format = format}, args,
                emulated_device());
}

TEST(CudaQuantizeSteps, TogetherGiveTheCodesAndScalesOfQuantize) {
  HostTensor x(DType::kBF16, 160, 96);
  x.randomize(1, 0.3);
  x.set(5, 7, 100.0);
  for (const char* name : {"fp8_tensor", "fp8_tensor_e5m2", "mxfp8", "mxfp4", "nvfp4"}) {
    const QuantFormat format = *formats::format_of_name(name);
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(std::string(name) + (transposed ? " by columns" : " by rows"));
      HostTensor y = x;
      if (transposed) {
        y = HostTensor(DType::kBF16, x.cols(), x.rows());
        run_step(ops::QuantizeStep::kTranspose, x, format, {.x = x.view(), .out = y.view()});
      }
      const std::int64_t per_row = formats::scales_per_row(format, y.cols());
      const bool by_tensor = format.grid == ScaleGrid::kTensor;
      HostTensor amax(DType::kI32, by_tensor ? 1 : y.rows(), by_tensor ? 1 : per_row), tensor_amax(DType::kI32, 1, 1);
      HostTensor scales(by_tensor ? DType::kF32 : DType::kU8, amax.rows(), amax.cols());
      HostTensor wide(DType::kU8, y.rows(), y.cols()),
          codes(DType::kU8, y.rows(), formats::code_row_bytes(format, y.cols()));
      run_step(ops::QuantizeStep::kAmax, y, format, {.x = y.view(), .out = amax.view()});
      run_step(ops::QuantizeStep::kAmax, y, {.grid = ScaleGrid::kTensor}, {.x = y.view(), .out = tensor_amax.view()});
      run_step(ops::QuantizeStep::kQuantize, y, format,
               {.x = y.view(),
                .out = wide.view(),
                .amax = amax.view(),
                .tensor_amax = tensor_amax.view(),
                .scales = scales.view()});
      if (format.element == formats::Element::kE2m1) {
        run_step(ops::QuantizeStep::kPack, wide, format, {.x = wide.view(), .out = codes.view()});
      } else {
        codes = wide;
      }
      const ops::ScalesShape shape =
          ops::quantized_scales_shape(format, formats::ScaleLayout::kProduct, y.rows(), y.cols());
      HostTensor placed(shape.dtype, shape.rows, shape.cols);
      if (by_tensor) {
        placed = scales;
      } else {
        run_step(ops::QuantizeStep::kSwizzle, scales, format, {.x = scales.view(), .out = placed.view()});
      }

      HostTensor want_codes(DType::kU8, codes.rows(), codes.cols()), want_scales(shape.dtype, shape.rows, shape.cols);
      HostTensor tensor_scale(DType::kF32, 1, 1);
      ops::QuantizeDesc desc{.rows = x.rows(), .cols = x.cols(), .layout = formats::ScaleLayout::kProduct};
      const ops::QuantizedView want{
          .codes = want_codes.view(), .scales = want_scales.view(), .tensor_scale = tensor_scale.view().as<float>()};
      (transposed ? desc.by_cols : desc.by_rows) = format;
      ops::QuantizeArgs args{.x = x.view(), .by_rows = {}, .by_cols = {}};
      (transposed ? args.by_cols : args.by_rows) = want;
      cpu::run_impl(cpu::quantize_impls().front(), desc, args, cpu::devices_of_every_isa()[0]);
      EXPECT_TRUE(cpu::same_bits(codes, want_codes));
      EXPECT_TRUE(cpu::same_bits(placed, want_scales));
    }
  }
}

}  // namespace
}  // namespace ida::cuda

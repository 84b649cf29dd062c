// One ops::pack problem: operands, results that are NaN before they are written, and the two ops in a row to compare with.
#pragma once
#include "ops/pack.h"
#include "quantized_results.h"

namespace ida::cpu {

struct PackCase {
  explicit PackCase(const ops::PackDesc& d, std::int64_t padding = 8)
      : desc(d),
        gate_up_cols(d.producer == ops::Producer::kSwigluForward ? 2 * d.quantize.cols : d.quantize.cols),
        grad_y_cols(d.producer == ops::Producer::kSwigluBackward ? d.quantize.cols / 2 : d.quantize.cols),
        x(d.quantize.dtype, d.quantize.rows, gate_up_cols, padding),
        w(d.quantize.dtype, 1, d.quantize.cols),
        grad_y(d.quantize.dtype, d.quantize.rows, grad_y_cols, padding),
        rstd(DType::kF32, d.quantize.rows, 1),
        grad_w(DType::kF32, 1, d.quantize.cols),
        matrix(d.quantize.dtype, d.quantize.rows, d.quantize.cols, padding),
        results(d.quantize) {
    x.randomize(1, 2.0);
    x.for_each([&](std::int64_t r, std::int64_t c) {
      if (r / 16 % 3 == 1) x.set(r, c, x.at(r, c) * 0x1p-12);
      if ((r * 31 + c) % 97 == 0) x.set(r, c, 0.0);
    });
    w.randomize(2, 0.1, 1.0);
    grad_y.randomize(3, 1e-3);
    if (d.producer == ops::Producer::kRmsNormBackward) {
      rstd.randomize(4, 0.1, 0.7);
      grad_w.fill(0.0);
    }
  }

  ops::PackArgs args() {
    ops::PackArgs a{.producer = producer_args(desc.keeps_matrix ? matrix.view() : TensorView{}),
                    .quantize = quantize_args()};
    return a;
  }
  ops::QuantizeArgs quantize_args() {
    return {.x = {},
            .by_rows = results.by_rows.view(),
            .by_cols = results.by_cols.view(),
            .amax = desc.quantize.has_amax ? &amax : nullptr,
            .prescale = desc.quantize.has_prescale ? &prescale : nullptr,
            .step = &step,
            .seed = 11,
            .tensor = 3};
  }
  decltype(ops::PackArgs::producer) producer_args(const TensorView& y) const {
    switch (desc.producer) {
      case ops::Producer::kRmsNormForward:
        return ops::RmsNormForwardArgs{.x = x.view(), .w = w.view(), .y = y, .rstd = rstd.view()};
      case ops::Producer::kRmsNormBackward:
        return ops::RmsNormBackwardArgs{.grad_y = grad_y.view(),
                                        .x = x.view(),
                                        .w = w.view(),
                                        .rstd = rstd.view(),
                                        .grad_x = y,
                                        .grad_w = grad_w.view()};
      case ops::Producer::kSwigluForward: return ops::SwigluForwardArgs{.gate_up = x.view(), .y = y};
      case ops::Producer::kSwigluBackward:
        return ops::SwigluBackwardArgs{.grad_y = grad_y.view(), .gate_up = x.view(), .grad_gate_up = y};
    }
    return {};
  }

  // The op and then ops::quantize, which measures what it needs.
  void run_apart(const ops::PackLists& lists, const runtime::DeviceInfo& device) {
    const auto producer = producer_args(matrix.view());
    if (const auto* norm = std::get_if<ops::RmsNormForwardArgs>(&producer))
      run_impl(lists.rms_norm_forward.front(), desc.rms_norm(), *norm, device);
    if (const auto* norm_grad = std::get_if<ops::RmsNormBackwardArgs>(&producer))
      run_impl(lists.rms_norm_backward.front(), desc.rms_norm(), *norm_grad, device);
    if (const auto* swiglu = std::get_if<ops::SwigluForwardArgs>(&producer))
      run_impl(lists.swiglu_forward.front(), desc.swiglu(), *swiglu, device);
    if (const auto* swiglu_grad = std::get_if<ops::SwigluBackwardArgs>(&producer))
      run_impl(lists.swiglu_backward.front(), desc.swiglu(), *swiglu_grad, device);
    ops::QuantizeArgs quantize = quantize_args();
    quantize.x = matrix.view();
    run_impl(lists.quantize.back(), desc.quantize, quantize, device);
  }

  // Every bit of the results; of the matrix where both have kept it.
  void expect_same(const PackCase& want, const std::string& what) const {
    cpu::expect_same(results.by_rows, want.results.by_rows, what + " by rows");
    cpu::expect_same(results.by_cols, want.results.by_cols, what + " by columns");
    EXPECT_TRUE(same_bits(rstd, want.rstd)) << what << " rstd";
    EXPECT_TRUE(same_bits(grad_w, want.grad_w)) << what << " grad_w";
    if (desc.keeps_matrix) {
      EXPECT_TRUE(same_bits(matrix, want.matrix)) << what << " matrix";
    }
  }

  ops::PackDesc desc;
  std::int64_t gate_up_cols, grad_y_cols;
  HostTensor x, w, grad_y, rstd, grad_w, matrix;
  Results results;
  std::uint32_t amax = std::bit_cast<std::uint32_t>(3.5f);
  std::int32_t prescale = 5;
  std::uint64_t step = 12345;
};

inline constexpr ops::Producer kProducers[] = {ops::Producer::kRmsNormForward, ops::Producer::kRmsNormBackward,
                                               ops::Producer::kSwigluForward, ops::Producer::kSwigluBackward};

}  // namespace ida::cpu

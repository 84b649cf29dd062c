#include "train/bench_quantize.h"

namespace ida::train {
namespace {

using formats::QuantFormat;
using ops::PackArgs;
using ops::PackDesc;
using ops::Producer;

struct FusedPackBench {
  OpTimer& timer;
  std::int64_t rows;
  DType dtype = DType::kBF16;

  double bytes(std::int64_t cols) const { return 2.0 * static_cast<double>(rows) * static_cast<double>(cols); }

  // `operands`: columns that the op reads.
  void time(const PackDesc& desc, std::int64_t operands) const {
    const ops::QuantizeDesc& q = desc.quantize;
    const bool twice = ops::producer_finds_amax(q) && desc.producer != Producer::kRmsNormBackward;
    const double results = quantized_bytes(q.by_rows, q.layout, q.rows, q.cols) +
                           quantized_bytes(q.by_cols, q.layout, q.cols, q.rows) + (desc.keeps_matrix ? bytes(q.cols) : 0.0);
    std::string name = "pack " + std::string(ops::producer_name(desc.producer));
    if (desc.keeps_matrix && desc.producer != Producer::kRmsNormBackward) name += " kept";
    if (q.has_amax) name += " amax given";
    timer.time<PackDesc, PackArgs>(name, timer.backend().pack, desc, (twice ? 2.0 : 1.0) * bytes(operands) + results,
                                   [&](Operands& o) { return args(desc, o); });
  }

  PackArgs args(const PackDesc& desc, Operands& o) const {
    const ops::QuantizeDesc& q = desc.quantize;
    const std::int64_t cols = q.cols;
    const TensorView matrix = desc.keeps_matrix ? o.zero(dtype, rows, cols) : TensorView{};
    const std::int32_t amax = 0x40C00000;  // 6.0
    PackArgs a{.producer = {},
               .quantize = {.x = {},
                            .by_rows = quantized_result(o, q.by_rows, q.layout, rows, cols),
                            .by_cols = quantized_result(o, q.by_cols, q.layout, cols, rows),
                            .amax = static_cast<const std::uint32_t*>(o.upload(DType::kI32, 1, 1, &amax).data)}};
    switch (desc.producer) {
      case Producer::kRmsNormForward:
        a.producer = ops::RmsNormForwardArgs{.x = o.random(dtype, rows, cols),
                                             .w = o.random(dtype, 1, cols),
                                             .y = matrix,
                                             .rstd = o.zero(DType::kF32, rows, 1)};
        break;
      case Producer::kRmsNormBackward:
        a.producer = ops::RmsNormBackwardArgs{.grad_y = o.random(dtype, rows, cols),
                                              .x = o.random(dtype, rows, cols),
                                              .w = o.random(dtype, 1, cols),
                                              .rstd = o.random(DType::kF32, rows, 1),
                                              .grad_x = matrix,
                                              .grad_w = o.zero(DType::kF32, 1, cols)};
        break;
      case Producer::kSwigluForward:
        a.producer = ops::SwigluForwardArgs{.gate_up = o.random(dtype, rows, 2 * cols), .y = matrix};
        break;
      case Producer::kSwigluBackward:
        a.producer = ops::SwigluBackwardArgs{
            .grad_y = o.random(dtype, rows, cols / 2), .gate_up = o.random(dtype, rows, cols), .grad_gate_up = matrix};
        break;
    }
    return a;
  }

  // Kept and not; with the amax given where that is of use.
  void producer(Producer producer, const QuantFormat& format, std::int64_t cols, std::int64_t operands) const {
    PackDesc desc{
        .producer = producer,
        .quantize = {
            .rows = rows, .cols = cols, .by_rows = format, .by_cols = format, .layout = formats::ScaleLayout::kProduct}};
    time(desc, operands);
    if (formats::needs_tensor_amax(format)) {
      desc.quantize.has_amax = true;
      time(desc, operands);
      desc.quantize.has_amax = false;
    }
    desc.keeps_matrix = false;
    if (!ops::refuse_pack(desc)) time(desc, operands);
  }
};

}  // namespace

void bench_fused_packs(OpTimer& timer, std::int64_t rows, std::int64_t hidden, std::int64_t intermediate) {
  if (timer.backend().pack.size() < 2) return;  // nothing is fused
  const FusedPackBench bench{timer, rows};
  for (const std::string_view name : kBenchFormats) {
    const QuantFormat format = *formats::format_of_name(name);
    bench.producer(Producer::kRmsNormForward, format, hidden, hidden);
    bench.producer(Producer::kRmsNormBackward, format, hidden, 2 * hidden);
    bench.producer(Producer::kSwigluForward, format, intermediate, 2 * intermediate);
    bench.producer(Producer::kSwigluBackward, format, 2 * intermediate, 3 * intermediate);
  }
}

}  // namespace ida::train

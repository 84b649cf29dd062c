// Packs made on the way out of an op: on the GPU the bits of the op and the quantisation in a row, in every implementation,
// and the matrix that the CPU makes.
#include "ops/pack.h"

#include "twin.h"

namespace ida::cuda {
namespace {

using formats::QuantFormat;
using ops::PackDesc;
using ops::Producer;

class CudaPackTest : public CudaTest {
 protected:
  using Bytes = std::vector<std::byte>;

  // Results of one run, each starting as NaN.
  struct Outcome {
    std::vector<Bytes> results;  // codes, scales and tensor's scale of rows, of columns; rstd; grad_w
    Bytes matrix;
    double matrix_error = 0.0;  // beside the CPU's
  };

  // Without an implementation: the ops in a row.
  Outcome run(const PackDesc& desc, const ops::Impl<PackDesc, ops::PackArgs>* impl) {
    const ops::QuantizeDesc& q = desc.quantize;
    const runtime::Arena::Scope cpu_scope(cpu_->arena());
    const runtime::Arena::Scope gpu_scope(gpu_->arena());
    const bool keeps = desc.keeps_matrix || impl == nullptr;
    Twin x = twin(q.dtype, q.rows, desc.producer == Producer::kSwigluForward ? 2 * q.cols : q.cols, 8).random(1, 2.0f);
    Twin w = twin(q.dtype, 1, q.cols).random(2, 0.1f, 1.0f);
    Twin grad_y = twin(q.dtype, q.rows, desc.producer == Producer::kSwigluBackward ? q.cols / 2 : q.cols).random(3, 1e-3f);
    Twin rstd = twin(DType::kF32, q.rows, 1).random(4, 0.1f, 0.7f);
    Twin grad_w = twin(DType::kF32, 1, q.cols).fill(std::vector<float>(static_cast<std::size_t>(q.cols), 0.0f));
    Twin matrix = twin(q.dtype, q.rows, q.cols, 16);
    std::vector<Twin> parts;  // codes, scales, tensor's scale of each direction
    const auto view = [&](const QuantFormat& f, std::int64_t rows, std::int64_t k, TensorView Twin::*side, std::size_t at) {
      if (f.grid == formats::ScaleGrid::kNone) return ops::QuantizedView{};
      const ops::ScalesShape s = ops::quantized_scales_shape(f, q.layout, rows, k);
      if (parts.size() <= at) {
        parts.push_back(twin(DType::kU8, rows, formats::code_row_bytes(f, k)));
        parts.push_back(twin(s.dtype, s.rows, s.cols));
        parts.push_back(twin(DType::kF32, 1, 1));
      }
      return ops::QuantizedView{.codes = parts[at].*side,
                                .scales = parts[at + 1].*side,
                                .tensor_scale = (parts[at + 2].*side).template as<float>()};
    };
    const auto args = [&](TensorView Twin::*side) {
      const TensorView y = keeps ? matrix.*side : TensorView{};
      ops::PackArgs a;
      switch (desc.producer) {
        case Producer::kRmsNormForward:
          a.producer = ops::RmsNormForwardArgs{.x = x.*side, .w = w.*side, .y = y, .rstd = rstd.*side};
          break;
        case Producer::kRmsNormBackward:
          a.producer = ops::RmsNormBackwardArgs{
              .grad_y = grad_y.*side, .x = x.*side, .w = w.*side, .rstd = rstd.*side, .grad_x = y, .grad_w = grad_w.*side};
          break;
        case Producer::kSwigluForward: a.producer = ops::SwigluForwardArgs{.gate_up = x.*side, .y = y}; break;
        case Producer::kSwigluBackward:
          a.producer = ops::SwigluBackwardArgs{.grad_y = grad_y.*side, .gate_up = x.*side, .grad_gate_up = y};
          break;
      }
      a.quantize.by_rows = view(q.by_rows, q.rows, q.cols, side, 0);
      a.quantize.by_cols = view(q.by_cols, q.cols, q.rows, side, q.by_rows.grid == formats::ScaleGrid::kNone ? 0 : 3);
      a.quantize.seed = 11;
      a.quantize.tensor = 3;
      return a;
    };
    const auto apart = [&](ops::Context& context, ops::PackArgs a) {
      std::visit(
          [&]<typename Op>(const Op& op) {
            if constexpr (std::is_same_v<Op, ops::RmsNormForwardArgs>)
              ops::rms_norm_forward(context, desc.rms_norm(), op);
            else if constexpr (std::is_same_v<Op, ops::RmsNormBackwardArgs>)
              ops::rms_norm_backward(context, desc.rms_norm(), op);
            else if constexpr (std::is_same_v<Op, ops::SwigluForwardArgs>)
              ops::swiglu_forward(context, desc.swiglu(), op);
            else
              ops::swiglu_backward(context, desc.swiglu(), op);
          },
          a.producer);
      a.quantize.x = context.device.backend == runtime::BackendKind::kCuda ? matrix.gpu : matrix.cpu;
      ops::quantize(context, q, a.quantize);
    };
    if (impl == nullptr) {
      apart(cpu(), args(&Twin::cpu));
      apart(gpu(), args(&Twin::gpu));
    } else {
      const std::int64_t size = impl->workspace_bytes(desc, gpu_->device().info());
      void* workspace = gpu_->arena().allocate_bytes(size, runtime::MemoryClass::kWorkspace, "workspace");
      impl->run(desc, args(&Twin::gpu),
                {gpu_->device().info(),
                 {static_cast<std::byte*>(workspace), static_cast<std::size_t>(size)},
                 gpu_->device().queue()});
    }
    Outcome outcome;
    for (Twin& part : parts) outcome.results.push_back(part.gpu_bytes());
    outcome.results.push_back(rstd.gpu_bytes());
    outcome.results.push_back(grad_w.gpu_bytes());
    outcome.matrix = matrix.gpu_bytes();
    if (impl == nullptr) outcome.matrix_error = matrix.error();
    return outcome;
  }

  // How many took it.
  int expect_same(const PackDesc& desc) {
    if (ops::refuse_pack(desc)) return 0;
    const Outcome want = run(desc, nullptr);
    EXPECT_LT(want.matrix_error, bar(desc.quantize.dtype)) << desc.to_string();
    int took = 0;
    for (const auto& impl : gpu_->backend().pack) {
      if (impl.supports(desc, gpu_->device().info())) continue;
      const Outcome got = run(desc, &impl);
      EXPECT_EQ(got.results, want.results) << impl.name << " " << desc.to_string();
      if (desc.keeps_matrix) {
        EXPECT_EQ(got.matrix, want.matrix) << impl.name << " " << desc.to_string();
      }
      ++took;
    }
    return took;
  }
};

constexpr Producer kProducers[] = {Producer::kRmsNormForward, Producer::kRmsNormBackward, Producer::kSwigluForward,
                                   Producer::kSwigluBackward};

TEST_F(CudaPackTest, EveryProducerAndFormat) {
  for (const Producer producer : kProducers) {
    for (const std::string_view name :
         {"fp8_tensor", "fp8_row", "fp8_vec128", "fp8_block128", "mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4"}) {
      for (const formats::Rounding rounding : {formats::Rounding::kNearest, formats::Rounding::kStochastic}) {
        QuantFormat f = *formats::format_of_name(name);
        f.rounding = rounding;
        for (const bool keeps : {true, false}) {
          PackDesc desc{
              .producer = producer,
              .quantize = {.rows = 384, .cols = 512, .by_rows = f, .by_cols = f, .layout = formats::ScaleLayout::kProduct},
              .keeps_matrix = keeps};
          const bool fused = producer != Producer::kRmsNormBackward && f.grid != formats::ScaleGrid::kRow;
          EXPECT_EQ(expect_same(desc), ops::refuse_pack(desc) ? 0 : fused ? 2 : 1) << desc.to_string();
          desc.quantize.rows = 37;
          desc.quantize.cols = 96;
          EXPECT_EQ(expect_same(desc), ops::refuse_pack(desc) ? 0 : 1) << desc.to_string();
        }
      }
    }
  }
}

// Blocks that run beside and after each other, of the width of a model.
TEST_F(CudaPackTest, ManyTiles) {
  for (const Producer producer : kProducers) {
    for (const std::string_view name : {"fp8_tensor", "mxfp8", "nvfp4"}) {
      const QuantFormat f = *formats::format_of_name(name);
      expect_same(
          {.producer = producer,
           .quantize = {.rows = 2048, .cols = 4096, .by_rows = f, .by_cols = f, .layout = formats::ScaleLayout::kProduct},
           .keeps_matrix = producer == Producer::kRmsNormBackward});
    }
  }
}

}  // namespace
}  // namespace ida::cuda

// Products of quantised operands: FP8 by the library, and the emulated ones, against the CPU's on the same bytes.
#include "twin.h"

namespace ida::cuda {
namespace {

using formats::QuantFormat;
using formats::ScaleGrid;

// A quantised [rows, k] matrix on both sides.
struct QuantizedTwin {
  Twin codes, scales, tensor_scale;
  ops::QuantizedView view(TensorView Twin::*side) {
    return {.codes = codes.*side, .scales = scales.*side, .tensor_scale = (tensor_scale.*side).as<float>()};
  }
};

class CudaQuantizedGemm : public CudaTest {
 protected:
  // Quantised by the CPU, copied to the GPU.
  QuantizedTwin quantized(const QuantFormat& format, std::int64_t rows, std::int64_t k, std::uint64_t seed, float scale) {
    Twin x = twin(DType::kF32, rows, k).random(seed, scale);
    const ops::ScalesShape shape = ops::quantized_scales_shape(format, formats::ScaleLayout::kProduct, rows, k);
    QuantizedTwin q{.codes = twin(DType::kU8, rows, formats::code_row_bytes(format, k)),
                    .scales = twin(shape.dtype, shape.rows, shape.cols),
                    .tensor_scale = twin(DType::kF32, 1, 1)};
    ops::quantize(
        cpu(), {.rows = rows, .cols = k, .dtype = DType::kF32, .by_rows = format, .layout = formats::ScaleLayout::kProduct},
        {.x = x.cpu, .by_rows = q.view(&Twin::cpu), .by_cols = {}});
    for (Twin* t : {&q.codes, &q.scales, &q.tensor_scale})
      gpu_->device().copy_to_device(t->gpu.data, t->cpu.data, t->cpu.size_bytes());
    return q;
  }
};

QuantFormat format(ScaleGrid grid, formats::Element element) { return {.grid = grid, .element = element}; }

TEST_F(CudaQuantizedGemm, AgreesWithTheCpuOnTheSameBytes) {
  using enum formats::Element;
  struct Pair {
    QuantFormat a, b;
  };
  for (const Pair& p : {Pair{format(ScaleGrid::kTensor, kE4m3), format(ScaleGrid::kTensor, kE4m3)},
                        Pair{format(ScaleGrid::kTensor, kE5m2), format(ScaleGrid::kTensor, kE4m3)},
                        Pair{format(ScaleGrid::kTensor, kE5m2), format(ScaleGrid::kTensor, kE5m2)},
                        Pair{format(ScaleGrid::kRow, kE4m3), format(ScaleGrid::kRow, kE4m3)},
                        Pair{format(ScaleGrid::kVec128, kE4m3), format(ScaleGrid::kBlock128, kE4m3)},
                        Pair{format(ScaleGrid::kVec128, kE4m3), format(ScaleGrid::kVec128, kE4m3)},
                        Pair{format(ScaleGrid::kMx32, kE4m3), format(ScaleGrid::kMx32, kE5m2)},
                        Pair{format(ScaleGrid::kMx32, kE2m1), format(ScaleGrid::kMx32, kE2m1)},
                        Pair{format(ScaleGrid::kNv16, kE2m1), format(ScaleGrid::kNv16, kE2m1)}}) {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{128, 256, 512}, {64, 48, 256}, {272, 128, 1152}, {33, 70, 57}}) {
      for (const DType c_dtype : {DType::kBF16, DType::kF32}) {
        for (const bool accumulate : {false, true}) {
          const ops::GemmDesc desc{.m = m,
                                   .n = n,
                                   .k = k,
                                   .b_transposed = true,
                                   .accumulate = accumulate,
                                   .a_dtype = DType::kU8,
                                   .b_dtype = DType::kU8,
                                   .c_dtype = c_dtype,
                                   .a_format = p.a,
                                   .b_format = p.b};
          const runtime::Arena::Scope cpu_scope(cpu_->arena());
          const runtime::Arena::Scope gpu_scope(gpu_->arena());
          // Far from 1, so that a forgotten scale shows.
          QuantizedTwin a = quantized(p.a, m, k, 1, 1e-3f);
          QuantizedTwin b = quantized(p.b, n, k, 2, 30.0f);
          Twin alpha = twin(DType::kF32, 1, 1).fill({0.5f});
          const auto& reference = ops::choose(cpu_->backend().gemm, desc, cpu().device, "gemm");
          int taken = 0;
          for (const auto& impl : gpu_->backend().gemm) {
            if (impl.supports(desc, gpu().device)) continue;
            ++taken;
            Twin c = twin(c_dtype, m, n).random(4);
            const auto run = [&](Side& side, const auto& chosen, TensorView Twin::*at) {
              runtime::Arena::Scope scope(side.arena());
              const std::int64_t size =
                  chosen.workspace_bytes == nullptr ? 0 : chosen.workspace_bytes(desc, side.context.device);
              void* workspace = side.arena().allocate_bytes(size, runtime::MemoryClass::kWorkspace, "w");
              chosen.run(desc,
                         {.a = {},
                          .b = {},
                          .c = c.*at,
                          .bias = {},
                          .alpha = (alpha.*at).as<const float>(),
                          .a_quantized = a.view(at),
                          .b_quantized = b.view(at)},
                         {side.context.device,
                          {static_cast<std::byte*>(workspace), static_cast<std::size_t>(size)},
                          side.context.queue});
            };
            run(*cpu_, reference, &Twin::cpu);
            run(*gpu_, impl, &Twin::gpu);
            // FP8 tensor cores align 32 products to the largest and keep 14 bits; the library adds such sums in f32.
            const bool fp8 = formats::has_f32_scales(p.a.grid);
            const double bar = c_dtype == DType::kBF16 ? 1.5e-3 : fp8 ? 5e-4 : 5e-6;
            EXPECT_LT(c.error(), bar) << impl.name << " " << desc.to_string();
          }
          EXPECT_GT(taken, 0) << desc.to_string();
        }
      }
    }
  }
}

}  // namespace
}  // namespace ida::cuda

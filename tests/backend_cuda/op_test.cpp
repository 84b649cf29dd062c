// Every own kernel against the CPU backend over odd shapes, strides and both types; outputs start as NaN.
#include <algorithm>

#include "twin.h"

namespace ida::cuda {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

std::vector<std::int32_t> random_ids(std::int64_t count, std::int64_t bound, std::uint64_t seed) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(bounded_at(seed, 3, i, static_cast<std::uint64_t>(bound)));
  return ids;
}

struct NormCase {
  std::int64_t rows, cols, groups, padding;
};
constexpr NormCase kNorms[] = {{1, 2, 1, 0},      {2, 7, 1, 3},        {127, 64, 9, 0}, {129, 712, 1, 8},
                               {1000, 576, 1, 0}, {1700, 2048, 1, 16}, {5, 5001, 1, 0}, {3000, 128, 2, 64},
                               {7, 8192, 1, 0},   {6500, 64, 1, 0},    {9, 4096, 1, 0}};

TEST_F(CudaTest, RmsNormForward) {
  for (const DType dtype : kTypes) {
    for (const NormCase& c : kNorms) {
      const std::int64_t width = c.cols * c.groups;
      Twin x = twin(dtype, c.rows, width, c.padding).random(1);
      Twin w = twin(dtype, 1, c.cols).random(2, 0.1f, 1.0f);
      Twin y = twin(dtype, c.rows, width, c.padding);
      Twin rstd = twin(DType::kF32, c.rows, c.groups);
      const ops::RmsNormDesc desc{.rows = c.rows, .cols = c.cols, .num_groups = c.groups, .eps = 1e-5f, .dtype = dtype};
      ops::rms_norm_forward(cpu(), desc, {.x = x.cpu, .w = w.cpu, .y = y.cpu, .rstd = rstd.cpu});
      ops::rms_norm_forward(gpu(), desc, {.x = x.gpu, .w = w.gpu, .y = y.gpu, .rstd = rstd.gpu});
      EXPECT_LT(y.error(), bar(dtype)) << desc.to_string();
      EXPECT_LT(rstd.error(), 2e-6) << desc.to_string();
      EXPECT_TRUE(y.padding_untouched()) << desc.to_string();
    }
  }
}

TEST_F(CudaTest, RmsNormBackward) {
  for (const DType dtype : kTypes) {
    for (const NormCase& c : kNorms) {
      for (const bool add : {false, true}) {
        const std::int64_t width = c.cols * c.groups;
        Twin x = twin(dtype, c.rows, width, c.padding).random(1);
        Twin w = twin(dtype, 1, c.cols).random(2, 0.1f, 1.0f);
        Twin dy = twin(dtype, c.rows, width, c.padding).random(3);
        Twin rstd = twin(DType::kF32, c.rows, c.groups).random(4, 0.01f, 1.0f);
        Twin dx = twin(dtype, c.rows, width, c.padding).random(5);
        Twin dw = twin(DType::kF32, 1, c.cols).random(6);
        Twin scale = twin(DType::kF32, 1, 1).fill({0.5f});
        const ops::RmsNormDesc desc{.rows = c.rows, .cols = c.cols, .num_groups = c.groups, .eps = 1e-5f, .dtype = dtype};
        const auto run = [&](ops::Context& context, auto side) {
          ops::rms_norm_backward(context, desc,
                                 {.grad_y = dy.*side,
                                  .x = x.*side,
                                  .w = w.*side,
                                  .rstd = rstd.*side,
                                  .grad_x = dx.*side,
                                  .grad_w = dw.*side,
                                  .grad_w_scale = (scale.*side).template as<const float>(),
                                  .add_to_grad_x = add});
        };
        run(cpu(), &Twin::cpu);
        run(gpu(), &Twin::gpu);
        EXPECT_LT(dx.error(), bar(dtype)) << desc.to_string();
        EXPECT_LT(dw.error(), 1e-5) << desc.to_string();  // sums of up to 6500 terms
        EXPECT_TRUE(dx.padding_untouched()) << desc.to_string();
      }
    }
  }
}

TEST_F(CudaTest, Rope) {
  struct Case {
    std::int64_t rows, heads, head_dim, rotary_dim, padding;
  };
  for (const DType dtype : kTypes) {
    for (const Case& c : {Case{1, 1, 2, 2, 0}, {127, 12, 64, 64, 192}, {129, 3, 80, 40, 0}, {1000, 4, 6, 6, 1}}) {
      for (const auto direction : {ops::RopeDirection::kForward, ops::RopeDirection::kInverse}) {
        Twin x = twin(dtype, c.rows, c.heads * c.head_dim, c.padding).random(1);
        Twin positions = twin(DType::kI32, 1, c.rows).fill_ints(random_ids(c.rows, 50, 2));
        Twin cos = twin(DType::kF32, 50, c.rotary_dim / 2).random(3);
        Twin sin = twin(DType::kF32, 50, c.rotary_dim / 2).random(4);
        const ops::RopeDesc desc{.rows = c.rows,
                                 .num_heads = c.heads,
                                 .head_dim = c.head_dim,
                                 .rotary_dim = c.rotary_dim,
                                 .direction = direction,
                                 .dtype = dtype};
        ops::rope(cpu(), desc, {.x = x.cpu, .positions = positions.cpu, .cos = cos.cpu, .sin = sin.cpu});
        ops::rope(gpu(), desc, {.x = x.gpu, .positions = positions.gpu, .cos = cos.gpu, .sin = sin.gpu});
        EXPECT_LT(x.error(), bar(dtype)) << desc.to_string();
        EXPECT_TRUE(x.padding_untouched()) << desc.to_string();
      }
    }
  }
}

TEST_F(CudaTest, Swiglu) {
  for (const DType dtype : kTypes) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {127, 64}, {129, 1536}, {10, 1001}}) {
      Twin gate_up = twin(dtype, rows, 2 * cols).random(1, 2.0f);
      Twin y = twin(dtype, rows, cols);
      Twin dy = twin(dtype, rows, cols).random(2);
      Twin grad = twin(dtype, rows, 2 * cols);
      const ops::SwigluDesc desc{.rows = rows, .cols = cols, .dtype = dtype};
      ops::swiglu_forward(cpu(), desc, {.gate_up = gate_up.cpu, .y = y.cpu});
      ops::swiglu_forward(gpu(), desc, {.gate_up = gate_up.gpu, .y = y.gpu});
      EXPECT_LT(y.error(), bar(dtype)) << desc.to_string();
      ops::swiglu_backward(cpu(), desc, {.grad_y = dy.cpu, .gate_up = gate_up.cpu, .grad_gate_up = grad.cpu});
      ops::swiglu_backward(gpu(), desc, {.grad_y = dy.gpu, .gate_up = gate_up.gpu, .grad_gate_up = grad.gpu});
      EXPECT_LT(grad.error(), bar(dtype)) << desc.to_string();
      ops::swiglu_backward(gpu(), desc, {.grad_y = dy.gpu, .gate_up = gate_up.gpu, .grad_gate_up = gate_up.gpu});
      EXPECT_EQ(grad.gpu_bytes(), gate_up.gpu_bytes()) << "in place";
    }
  }
}

TEST_F(CudaTest, CrossEntropy) {
  // Rows beyond the blocks of a grid (2500, 270), of every number of threads (100,352 in bf16 is the last), and too long
  // for shared memory (128,256).
  for (const DType dtype : kTypes) {
    for (const auto& [rows, vocab] : {std::pair<std::int64_t, std::int64_t>{1, 2},
                                      {3, 100},
                                      {2500, 64},
                                      {129, 8192},
                                      {40, 16384},
                                      {270, 49152},
                                      {5, 50257},
                                      {4, 100352},
                                      {3, 128256}}) {
      for (const bool with_gradient : {false, true}) {
        Twin logits = twin(dtype, rows, vocab).random(1, 5.0f);
        std::vector<std::int32_t> labels = random_ids(rows, vocab, 2);
        if (rows > 2) labels[1] = ops::kIgnoreLabel;
        labels[0] = static_cast<std::int32_t>(vocab - 1);
        Twin label = twin(DType::kI32, 1, rows).fill_ints(labels);
        Twin nll = twin(DType::kF32, 1, rows);
        Twin scale = twin(DType::kF32, 1, 1).fill({0.25f});
        const ops::CrossEntropyDesc desc{.rows = rows, .vocab_size = vocab, .with_gradient = with_gradient, .dtype = dtype};
        ops::cross_entropy(
            cpu(), desc,
            {.logits = logits.cpu, .labels = label.cpu, .nll = nll.cpu, .grad_scale = scale.cpu.as<const float>()});
        ops::cross_entropy(
            gpu(), desc,
            {.logits = logits.gpu, .labels = label.gpu, .nll = nll.gpu, .grad_scale = scale.gpu.as<const float>()});
        EXPECT_LT(nll.error(), 2e-6) << desc.to_string();
        // Of a gradient bounded by the scale: that of a certain label is a difference of nearly equal numbers.
        const double largest = 0.25 * std::sqrt(static_cast<double>(rows));
        EXPECT_LT(logits.distance(), with_gradient ? bar(dtype) * largest : 1e-30) << desc.to_string();
      }
    }
  }
}

TEST_F(CudaTest, EmbeddingForward) {
  for (const DType dtype : kTypes) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {129, 712}, {1000, 7}}) {
      Twin ids = twin(DType::kI32, 1, rows).fill_ints(random_ids(rows, 500, 1));
      Twin table = twin(dtype, 500, cols).random(2);
      Twin y = twin(dtype, rows, cols);
      const ops::EmbeddingDesc desc{.rows = rows, .cols = cols, .vocab_size = 500, .dtype = dtype};
      ops::embedding_forward(cpu(), desc, {.ids = ids.cpu, .table = table.cpu, .y = y.cpu});
      ops::embedding_forward(gpu(), desc, {.ids = ids.gpu, .table = table.gpu, .y = y.gpu});
      EXPECT_TRUE(y.same_bits()) << desc.to_string();
    }
  }
}

// Ids spread over the vocabulary, a few hot ones (buckets beyond one block), and a single one. Rows of an id are added
// in ascending order on both sides.
TEST_F(CudaTest, EmbeddingBackward) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t distinct : {1, 3, 40, 5000}) {
      const std::int64_t rows = 3001;
      Twin ids = twin(DType::kI32, 1, rows).fill_ints(random_ids(rows, distinct, 1));
      Twin grad_y = twin(dtype, rows, 72).random(2);
      Twin grad_table = twin(DType::kF32, 5000, 72).random(3);
      const ops::EmbeddingDesc desc{.rows = rows, .cols = 72, .vocab_size = 5000, .dtype = dtype};
      Twin scale = twin(DType::kF32, 1, 1).fill({0.5f});
      ops::embedding_backward(
          cpu(), desc,
          {.ids = ids.cpu, .grad_y = grad_y.cpu, .grad_table = grad_table.cpu, .scale = scale.cpu.as<const float>()});
      ops::embedding_backward(
          gpu(), desc,
          {.ids = ids.gpu, .grad_y = grad_y.gpu, .grad_table = grad_table.gpu, .scale = scale.gpu.as<const float>()});
      EXPECT_LT(grad_table.error(), 2e-6) << distinct << " ids";
    }
  }
}

TEST_F(CudaTest, AddAndConvert) {
  for (const DType dtype : kTypes) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {129, 712}, {77, 13}}) {
      Twin a = twin(dtype, rows, cols).random(1);
      Twin b = twin(dtype, rows, cols, 8).random(2);
      Twin y = twin(dtype, rows, cols);
      ops::add(cpu(), {.rows = rows, .cols = cols, .dtype = dtype}, {.a = a.cpu, .b = b.cpu, .y = y.cpu});
      ops::add(gpu(), {.rows = rows, .cols = cols, .dtype = dtype}, {.a = a.gpu, .b = b.gpu, .y = y.gpu});
      EXPECT_TRUE(y.same_bits());
      for (const DType to : kTypes) {
        Twin z = twin(to, rows, cols, 8);
        const ops::ConvertDesc desc{.rows = rows, .cols = cols, .from = dtype, .to = to};
        ops::convert(cpu(), desc, {.x = a.cpu, .y = z.cpu});
        ops::convert(gpu(), desc, {.x = a.gpu, .y = z.gpu});
        EXPECT_TRUE(z.same_bits()) << desc.to_string();
      }
      Twin sum = twin(DType::kF32, rows, cols).random(4);
      const ops::ConvertDesc desc{.rows = rows, .cols = cols, .from = dtype, .to = DType::kF32, .accumulate = true};
      ops::convert(cpu(), desc, {.x = a.cpu, .y = sum.cpu});
      ops::convert(gpu(), desc, {.x = a.gpu, .y = sum.gpu});
      EXPECT_TRUE(sum.same_bits()) << desc.to_string();
    }
  }
}

TEST_F(CudaTest, FillWritesTheBitsOfTheCpu) {
  for (const std::int64_t size : {1, 2, 129, 712 * 1000 + 1}) {
    for (const float std_dev : {0.0f, 0.02f}) {
      Twin y = twin(DType::kF32, 1, size);
      const auto args = [&](const TensorView& to) {
        return ops::FillArgs{.y = to, .value = 0.5f, .std_dev = std_dev, .seed = 42, .stream = 3};
      };
      ops::fill(cpu(), {.size = size}, args(y.cpu));
      ops::fill(gpu(), {.size = size}, args(y.gpu));
      EXPECT_TRUE(y.same_bits()) << size << " " << std_dev;
    }
  }
}

// One tensor, or from 1,000 elements on 70: of odd sizes, some empty, some off the 16-byte grid, gaps between them.
std::vector<ops::TensorRange> tensors_of(std::int64_t size) {
  if (size < 1000) return {{.offset = 0, .size = size, .decay = 1}};
  std::vector<ops::TensorRange> list;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < 69; ++i) {
    const std::int64_t length = i % 11 == 5 ? 0 : size / 100 - i % 7;
    list.push_back({.offset = at, .size = length, .decay = i % 2});
    at += length + (i % 3 == 0 ? 0 : 4 - length % 4);
  }
  list.push_back({.offset = at, .size = size - at, .decay = 1});
  return list;
}

TEST_F(CudaTest, BiasGradAndSumSquares) {
  for (const DType dtype : kTypes) {
    Twin grad_y = twin(dtype, 1500, 77).random(1);
    Twin grad = twin(DType::kF32, 1, 77).random(2);
    const ops::BiasGradDesc desc{.rows = 1500, .cols = 77, .dtype = dtype};
    Twin scale = twin(DType::kF32, 1, 1).fill({0.5f});
    ops::bias_grad(cpu(), desc, {.grad_y = grad_y.cpu, .grad_bias = grad.cpu, .scale = scale.cpu.as<const float>()});
    ops::bias_grad(gpu(), desc, {.grad_y = grad_y.gpu, .grad_bias = grad.gpu, .scale = scale.gpu.as<const float>()});
    EXPECT_LT(grad.error(), 5e-6);
  }
  for (const std::int64_t size : {1, 5000, 300001}) {
    Twin x = twin(DType::kF32, 1, size).random(3);
    std::vector<ops::TensorRange> list = tensors_of(size);
    const ops::SumSquaresDesc desc{
        .size = size, .num_tensors = static_cast<std::int64_t>(list.size()), .num_blocks = ops::number_blocks(list)};
    Twin ranges = twin(DType::kI64, desc.num_tensors, 4).fill_bytes(list.data());
    Twin result = twin(DType::kF64, 1, desc.num_tensors);
    ops::sum_squares(cpu(), desc, {.ranges = ranges.cpu, .x = x.cpu, .result = result.cpu});
    ops::sum_squares(gpu(), desc, {.ranges = ranges.gpu, .x = x.gpu, .result = result.gpu});
    EXPECT_LT(result.error(), 1e-7) << desc.to_string();
  }
}

// The update is element by element: the bits are the definition's.
TEST_F(CudaTest, OptimizerHasTheBitsOfTheDefinition) {
  for (const auto kind : {ops::OptimizerKind::kAdamW, ops::OptimizerKind::kLion}) {
    for (const DType weight_dtype : kTypes) {
      for (const DType state_dtype : kTypes) {
        for (const std::int64_t size : {1, 4096, 10001}) {
          Twin scalars = twin(DType::kF32, 1, 8).fill({1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.05f, 0.7f, 0.1f});
          Twin grad = twin(DType::kF32, 1, size).random(1);
          Twin master = twin(DType::kF32, 1, size).random(2);
          Twin m = twin(state_dtype, 1, size).random(3, 0.1f);
          Twin v = twin(state_dtype, 1, size).random(4, 0.01f, 0.5f);
          Twin weight = twin(weight_dtype, 1, size);
          std::vector<ops::TensorRange> list = tensors_of(size);
          const ops::OptimizerDesc desc{.kind = kind,
                                        .size = size,
                                        .num_tensors = static_cast<std::int64_t>(list.size()),
                                        .num_blocks = ops::number_blocks(list),
                                        .weight_dtype = weight_dtype,
                                        .state_dtype = state_dtype};
          Twin ranges = twin(DType::kI64, desc.num_tensors, 4).fill_bytes(list.data());
          const auto run = [&](ops::Context& context, auto side) {
            ops::optimizer_step(context, desc,
                                {.scalars = scalars.*side,
                                 .ranges = ranges.*side,
                                 .grad = grad.*side,
                                 .master = master.*side,
                                 .m = m.*side,
                                 .v = kind == ops::OptimizerKind::kAdamW ? v.*side : TensorView{},
                                 .weight = weight.*side});
          };
          run(cpu(), &Twin::cpu);
          run(gpu(), &Twin::gpu);
          EXPECT_TRUE(master.same_bits() && m.same_bits() && weight.same_bits()) << desc.to_string();
        }
      }
    }
  }
}

// Every implementation that takes a problem, against the first of the CPU.
TEST_F(CudaTest, Gemm) {
  struct Case {
    std::int64_t m, n, k;
  };
  for (const Case& c : {Case{1, 1, 1}, {127, 129, 65}, {128, 256, 512}, {1000, 712, 33}, {3, 50257, 64}}) {
    for (const DType dtype : kTypes) {
      for (int form = 0; form < 11; ++form) {
        const bool accumulate = (form >= 4 && form < 7) || form == 10;  // the last in C's own type
        const ops::GemmDesc desc{.m = c.m,
                                 .n = c.n,
                                 .k = c.k,
                                 .a_transposed = (form & 1) != 0,
                                 .b_transposed = (form & 2) != 0,
                                 .accumulate = accumulate,
                                 .has_bias = form == 7 || form == 9,
                                 .has_residual = form == 8 || form == 9,
                                 .a_dtype = dtype,
                                 .b_dtype = dtype,
                                 .c_dtype = accumulate && form < 10 ? DType::kF32 : dtype};
        Twin a = twin(dtype, desc.a_transposed ? c.k : c.m, desc.a_transposed ? c.m : c.k).random(1);
        Twin b = twin(dtype, desc.b_transposed ? c.n : c.k, desc.b_transposed ? c.k : c.n).random(2);
        Twin bias = twin(dtype, 1, c.n).random(3);
        Twin residual = twin(dtype, c.m, c.n, 8).random(5);
        Twin alpha = twin(DType::kF32, 1, 1).fill({0.5f});
        const auto& reference = ops::choose(cpu_->backend().gemm, desc, cpu().device, "gemm");
        int taken = 0;
        for (const auto& impl : gpu_->backend().gemm) {
          if (impl.supports(desc, gpu().device)) continue;
          ++taken;
          Twin out = twin(desc.c_dtype, c.m, c.n).random(4);
          const auto run = [&](Side& side, const auto& chosen, auto at) {
            runtime::Arena::Scope scope(side.arena());
            std::span<std::byte> workspace;
            if (chosen.workspace_bytes != nullptr) {
              const std::int64_t size = chosen.workspace_bytes(desc, side.context.device);
              workspace = {
                  static_cast<std::byte*>(side.arena().allocate_bytes(size, runtime::MemoryClass::kWorkspace, "w")),
                  static_cast<std::size_t>(size)};
            }
            chosen.run(desc,
                       {.a = a.*at,
                        .b = b.*at,
                        .c = out.*at,
                        .bias = desc.has_bias ? bias.*at : TensorView{},
                        .residual = desc.has_residual ? residual.*at : TensorView{},
                        .alpha = (alpha.*at).template as<const float>()},
                       {side.context.device, workspace, side.context.queue});
          };
          run(*cpu_, reference, &Twin::cpu);
          run(*gpu_, impl, &Twin::gpu);
          // The library may round the product before it adds the bias: two roundings of 2^-9, each 1.1e-3 by norm.
          const double bar = desc.c_dtype != DType::kBF16 ? 5e-6 : desc.has_bias ? 4e-3 : 1e-3;
          EXPECT_LT(out.error(), bar) << impl.name << " " << desc.to_string();
        }
        EXPECT_GT(taken, 0) << "no implementation takes " << desc.to_string();
      }
    }
  }
}

}  // namespace
}  // namespace ida::cuda

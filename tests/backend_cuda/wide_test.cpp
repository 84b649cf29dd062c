// More than 2^31 elements in a tensor: the last row gets the bits of the first, which holds the same values. Skipped
// without a GPU of 40 GiB.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "base/rng.h"
#include "formats/bf16.h"
#include "ops/context.h"

namespace ida::cuda {
namespace {

constexpr std::int64_t kElems = std::int64_t{1} << 31;
constexpr std::int64_t kArenaBytes = std::int64_t{32} << 30;

// Past 2^31 elements by more than one row.
std::int64_t rows_beyond(std::int64_t cols) { return kElems / cols + 3; }

class CudaWide : public testing::Test {
 protected:
  void SetUp() override {
    const CudaSearch search = detect_cuda();
    if (!search.device) GTEST_SKIP() << "no CUDA device: " << search.reason;
    if (search.device->memory_bytes < std::int64_t{40} << 30) GTEST_SKIP() << "not enough memory on the device";
    device_ = open_cuda(*search.device);
    backend_ = make_cuda_backend(*search.device);
    memory_ = device_->allocate(kArenaBytes);
    arena_ = std::make_unique<runtime::Arena>(memory_, kArenaBytes);
    context_ = std::make_unique<ops::Context>(device_->info(), backend_, *arena_, device_->queue());
  }
  void TearDown() override {
    if (memory_ != nullptr) device_->release(memory_, kArenaBytes);
  }

  TensorView tensor(std::int64_t rows, std::int64_t cols, DType dtype = DType::kBF16) {
    return arena_->allocate(dtype, rows, cols, runtime::MemoryClass::kActivations, "wide");
  }
  // Zero but for the same random values in the first and the last row.
  TensorView input(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
    const TensorView view = tensor(rows, cols);
    std::vector<bf16> row(static_cast<std::size_t>(cols));
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = bf16_from_f32(normal_at(seed, 1, i));
    for (const std::int64_t at : {std::int64_t{0}, rows - 1}) write(view.row_slice(at, 1), row.data());
    return view;
  }
  // NaN where the comparison looks.
  TensorView output(std::int64_t rows, std::int64_t cols, DType dtype = DType::kBF16) {
    const TensorView view = tensor(rows, cols, dtype);
    const std::vector<std::byte> poison(static_cast<std::size_t>(view.row_slice(0, 1).size_bytes()), std::byte{0xff});
    for (const std::int64_t at : {std::int64_t{0}, rows - 1}) write(view.row_slice(at, 1), poison.data());
    return view;
  }
  void write(const TensorView& view, const void* host) { device_->copy_to_device(view.data, host, view.size_bytes()); }
  std::vector<std::byte> row(const TensorView& view, std::int64_t at) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(view.row_slice(at, 1).size_bytes()));
    device_->copy_to_host(bytes.data(), view.row_slice(at, 1).data, static_cast<std::int64_t>(bytes.size()));
    return bytes;
  }
  void expect_last_row_is_the_first(const char* what, const TensorView& view) {
    const std::vector<std::byte> first = row(view, 0);
    EXPECT_NE(first, std::vector<std::byte>(first.size(), std::byte{0xff})) << what << ": not written";
    EXPECT_TRUE(row(view, view.rows - 1) == first) << what;
  }

  std::unique_ptr<runtime::Device> device_;
  ops::Backend backend_;
  void* memory_ = nullptr;
  std::unique_ptr<runtime::Arena> arena_;
  std::unique_ptr<ops::Context> context_;
};

TEST_F(CudaWide, CrossEntropy) {
  constexpr std::int64_t kVocab = 50257;
  const std::int64_t rows = rows_beyond(kVocab);
  const TensorView logits = input(rows, kVocab, 1);
  const TensorView labels = tensor(1, rows, DType::kI32);  // 0
  const TensorView nll = output(rows, 1, DType::kF32);
  const TensorView flat{nll.data, DType::kF32, 1, rows, rows};
  ops::cross_entropy(*context_, {.rows = rows, .vocab_size = kVocab, .with_gradient = true, .dtype = DType::kBF16},
                     {.logits = logits, .labels = labels, .nll = flat});
  expect_last_row_is_the_first("nll", nll);
  expect_last_row_is_the_first("gradient", logits);
}

TEST_F(CudaWide, Swiglu) {
  constexpr std::int64_t kCols = 8192;
  const std::int64_t rows = rows_beyond(2 * kCols);
  const TensorView gate_up = input(rows, 2 * kCols, 1);
  const TensorView y = output(rows, kCols);
  const ops::SwigluDesc desc{.rows = rows, .cols = kCols, .dtype = DType::kBF16};
  ops::swiglu_forward(*context_, desc, {.gate_up = gate_up, .y = y});
  expect_last_row_is_the_first("y", y);
  ops::swiglu_backward(*context_, desc, {.grad_y = y, .gate_up = gate_up, .grad_gate_up = gate_up});
  expect_last_row_is_the_first("gradient", gate_up);
}

TEST_F(CudaWide, RmsNorm) {
  constexpr std::int64_t kCols = 2048;
  const std::int64_t rows = rows_beyond(kCols);
  const TensorView x = input(rows, kCols, 1);
  const TensorView w = input(1, kCols, 2);
  const TensorView y = output(rows, kCols);
  const TensorView rstd = output(rows, 1, DType::kF32);
  const ops::RmsNormDesc desc{.rows = rows, .cols = kCols, .num_groups = 1, .eps = 1e-5f, .dtype = DType::kBF16};
  ops::rms_norm_forward(*context_, desc, {.x = x, .w = w, .y = y, .rstd = rstd});
  expect_last_row_is_the_first("y", y);
  expect_last_row_is_the_first("rstd", rstd);
  const TensorView grad_w = tensor(1, kCols, DType::kF32);
  ops::rms_norm_backward(*context_, desc, {.grad_y = y, .x = x, .w = w, .rstd = rstd, .grad_x = y, .grad_w = grad_w});
  expect_last_row_is_the_first("grad_x", y);
}

TEST_F(CudaWide, AddAndConvert) {
  constexpr std::int64_t kCols = 4096;
  const std::int64_t rows = rows_beyond(kCols);
  const TensorView x = input(rows, kCols, 1);
  const TensorView y = output(rows, kCols);
  ops::add(*context_, {.rows = rows, .cols = kCols, .dtype = DType::kBF16}, {.a = x, .b = x, .y = y});
  expect_last_row_is_the_first("sum", y);
  const TensorView wide = output(rows, kCols, DType::kF32);
  ops::convert(*context_, {.rows = rows, .cols = kCols, .from = DType::kBF16, .to = DType::kF32}, {.x = x, .y = wide});
  expect_last_row_is_the_first("converted", wide);
}

TEST_F(CudaWide, Embedding) {
  constexpr std::int64_t kCols = 4096;
  const std::int64_t rows = rows_beyond(kCols);
  const TensorView table = input(1, kCols, 1);
  const TensorView ids = tensor(1, rows, DType::kI32);  // 0
  const TensorView y = output(rows, kCols);
  ops::embedding_forward(*context_, {.rows = rows, .cols = kCols, .vocab_size = 1, .dtype = DType::kBF16},
                         {.ids = ids, .table = table, .y = y});
  expect_last_row_is_the_first("y", y);
}

TEST_F(CudaWide, Rope) {
  constexpr std::int64_t kCols = 4096;
  const std::int64_t rows = rows_beyond(kCols);
  const TensorView x = input(rows, kCols, 1);
  const std::vector<std::byte> before = row(x, 0);
  const TensorView cosines = input(1, 32, 2);
  const TensorView wide_cosines = tensor(1, 32, DType::kF32);
  ops::convert(*context_, {.rows = 1, .cols = 32, .from = DType::kBF16, .to = DType::kF32},
               {.x = cosines, .y = wide_cosines});
  const TensorView positions = tensor(1, rows, DType::kI32);  // 0
  const ops::RopeDesc desc{.rows = rows, .num_heads = kCols / 64, .head_dim = 64, .rotary_dim = 64, .dtype = DType::kBF16};
  ops::rope(*context_, desc, {.x = x, .positions = positions, .cos = wide_cosines, .sin = wide_cosines});
  EXPECT_NE(row(x, 0), before);
  expect_last_row_is_the_first("rotated", x);
}

TEST_F(CudaWide, BiasGrad) {
  constexpr std::int64_t kCols = 2048;
  const std::int64_t rows = rows_beyond(kCols);
  const TensorView grad_y = input(rows, kCols, 1);
  const TensorView grad_bias = tensor(1, kCols, DType::kF32);
  ops::bias_grad(*context_, {.rows = rows, .cols = kCols, .dtype = DType::kBF16},
                 {.grad_y = grad_y, .grad_bias = grad_bias});
  std::vector<float> got(kCols);
  device_->copy_to_host(got.data(), grad_bias.data, grad_bias.size_bytes());
  for (std::size_t i = 0; i < got.size(); ++i)  // the first row and the last
    EXPECT_EQ(got[i], 2.0f * to_f32(bf16_from_f32(normal_at(1, 1, i)))) << i;
}

// Documents of 1024 tokens between two of one, which hold the same values.
TEST_F(CudaWide, Attention) {
  constexpr std::int64_t kHeads = 128;
  constexpr std::int64_t kDim = 128;
  const std::int64_t rows = rows_beyond(kHeads * kDim);
  std::vector<ops::Segment> table = {{0, 1, 0, 1}};
  for (std::int64_t begin = 1; begin < rows - 1; begin += 1024) {
    const auto first = static_cast<std::int32_t>(begin);
    const auto length = static_cast<std::int32_t>(std::min<std::int64_t>(1024, rows - 1 - begin));
    table.push_back({first, length, first, length});
  }
  const auto last = static_cast<std::int32_t>(rows - 1);
  table.push_back({last, 1, last, 1});
  const auto num_segments = static_cast<std::int64_t>(table.size());
  const TensorView segments = tensor(num_segments, 4, DType::kI32);
  write(segments, table.data());
  const ops::AttentionDesc desc{.q_rows = rows,
                                .kv_rows = rows,
                                .num_heads = kHeads,
                                .num_kv_heads = 1,
                                .head_dim = kDim,
                                .max_segments = num_segments,
                                .scale = 0.1f,
                                .dtype = DType::kBF16};
  const TensorView q = input(rows, kHeads * kDim, 1), k = input(rows, kDim, 2), v = input(rows, kDim, 3);
  const TensorView o = output(rows, kHeads * kDim), lse = output(rows, kHeads, DType::kF32);
  ops::attention_forward(*context_, desc, {.q = q, .k = k, .v = v, .segments = segments, .o = o, .lse = lse});
  expect_last_row_is_the_first("o", o);
  expect_last_row_is_the_first("lse", lse);
  const TensorView grad_o = input(rows, kHeads * kDim, 4);
  const TensorView grad_q = output(rows, kHeads * kDim), grad_k = output(rows, kDim), grad_v = output(rows, kDim);
  ops::attention_backward(*context_, desc,
                          {.grad_o = grad_o,
                           .q = q,
                           .k = k,
                           .v = v,
                           .o = o,
                           .lse = lse,
                           .segments = segments,
                           .grad_q = grad_q,
                           .grad_k = grad_k,
                           .grad_v = grad_v});
  expect_last_row_is_the_first("grad_q", grad_q);
  expect_last_row_is_the_first("grad_k", grad_k);
  expect_last_row_is_the_first("grad_v", grad_v);
}

TEST_F(CudaWide, Quantize) {
  constexpr std::int64_t kCols = 16384;
  const std::int64_t rows = kElems / kCols + 128;
  const TensorView x = input(rows, kCols, 1);
  const formats::QuantFormat format = *formats::format_of_name("mxfp8");
  const ops::QuantizedView by_rows{.codes = output(rows, kCols, DType::kU8),
                                   .scales = output(rows, kCols / 32, DType::kU8)};
  const ops::QuantizedView by_cols{.codes = output(kCols, rows, DType::kU8),
                                   .scales = output(kCols, rows / 32, DType::kU8)};
  ops::quantize(*context_, {.rows = rows, .cols = kCols, .dtype = DType::kBF16, .by_rows = format, .by_cols = format},
                {.x = x, .by_rows = by_rows, .by_cols = by_cols});
  expect_last_row_is_the_first("codes", by_rows.codes);
  expect_last_row_is_the_first("scales", by_rows.scales);
  for (const std::int64_t column : {std::int64_t{0}, kCols - 1}) {
    const std::vector<std::byte> codes = row(by_cols.codes, column);
    EXPECT_EQ(codes.front(), codes.back()) << column;
    EXPECT_NE(codes.front(), std::byte{0}) << column;
    EXPECT_EQ(codes[1], std::byte{0}) << column;
  }
  const TensorView y = output(rows, kCols);
  ops::dequantize(*context_, {.rows = rows, .cols = kCols, .format = format, .dtype = DType::kBF16},
                  {.x = by_rows, .y = y});
  expect_last_row_is_the_first("dequantised", y);
}

// Logits of a large batch. Every implementation that takes the product.
TEST_F(CudaWide, Gemm) {
  constexpr std::int64_t kVocab = 50257;
  constexpr std::int64_t kWidth = 64;
  const std::int64_t rows = rows_beyond(kVocab);
  const TensorView a = input(rows, kWidth, 1);
  const TensorView b = input(kVocab, kWidth, 2);
  const ops::GemmDesc desc{.m = rows,
                           .n = kVocab,
                           .k = kWidth,
                           .b_transposed = true,
                           .a_dtype = DType::kBF16,
                           .b_dtype = DType::kBF16,
                           .c_dtype = DType::kBF16};
  int taken = 0;
  for (const auto& impl : backend_.gemm) {
    if (impl.supports(desc, device_->info())) continue;
    ++taken;
    runtime::Arena::Scope scope(*arena_);
    const TensorView c = output(rows, kVocab);
    std::span<std::byte> workspace;
    if (impl.workspace_bytes != nullptr) {
      const std::int64_t size = impl.workspace_bytes(desc, device_->info());
      workspace = {static_cast<std::byte*>(arena_->allocate_bytes(size, runtime::MemoryClass::kWorkspace, "workspace")),
                   static_cast<std::size_t>(size)};
    }
    impl.run(desc, {.a = a, .b = b, .c = c, .bias = {}}, {device_->info(), workspace, device_->queue()});
    expect_last_row_is_the_first(std::string(impl.name).c_str(), c);
  }
  EXPECT_GT(taken, 0) << "no implementation takes the product";
}

TEST_F(CudaWide, SumOfSquaresAndUpdate) {
  const std::int64_t size = kElems + 5000;
  const TensorView grad = tensor(1, size, DType::kF32);
  const TensorView ends[] = {grad.col_slice(0, 1), grad.col_slice(size - 1, 1)};
  for (const TensorView& end : ends) {
    const float three = 3.0f;
    write(end, &three);
  }
  std::vector<ops::TensorRange> list = {{.offset = 0, .size = size}};
  const std::int64_t num_blocks = ops::number_blocks(list);
  const TensorView ranges = tensor(1, 4, DType::kI64);
  write(ranges, list.data());
  const TensorView sum = tensor(1, 1, DType::kF64);
  ops::sum_squares(*context_, {.size = size, .num_tensors = 1, .num_blocks = num_blocks},
                   {.ranges = ranges, .x = grad, .result = sum});
  double squares = 0.0;
  device_->copy_to_host(&squares, sum.data, sizeof(squares));
  EXPECT_EQ(squares, 18.0);

  const TensorView scalars = tensor(1, 8, DType::kF32);
  const std::vector<float> values = {1e-3f, 0.9f, 0.99f, 1e-8f, 1.0f, 1.0f, 1.0f, 0.0f};
  write(scalars, values.data());
  const TensorView master = tensor(1, size, DType::kF32);
  const TensorView m = tensor(1, size);
  const ops::OptimizerDesc desc{.kind = ops::OptimizerKind::kLion,
                                .size = size,
                                .num_tensors = 1,
                                .num_blocks = num_blocks,
                                .weight_dtype = DType::kF32,
                                .state_dtype = DType::kBF16};
  ops::optimizer_step(
      *context_, desc,
      {.scalars = scalars, .ranges = ranges, .grad = grad, .master = master, .m = m, .v = {}, .weight = master});
  float first = 0.0f;
  float last = 0.0f;
  device_->copy_to_host(&first, master.data, sizeof(first));
  device_->copy_to_host(&last, master.col_slice(size - 1, 1).data, sizeof(last));
  EXPECT_LT(first, 0.0f);
  EXPECT_EQ(last, first);
}

}  // namespace
}  // namespace ida::cuda

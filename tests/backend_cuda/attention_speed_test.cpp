// What only a device shows: captured graphs follow the segment table, and documents shorten the work.
#include <cstdio>

#include "attention_device.h"
#include "base/rng.h"

namespace ida::cuda {
namespace {

// Self-attention in bf16 over `rows` tokens in q | k | v buffers, random values.
struct Problem {
  Problem(int num_heads, int num_kv_heads, int head_dim, std::int64_t rows_)
      : rows(rows_),
        stride((num_heads + 2 * num_kv_heads) * head_dim),
        qkv(bytes_of(rows * stride)),
        grads(bytes_of(rows * stride)),
        o(bytes_of(rows * num_heads * head_dim)),
        grad_o(bytes_of(rows * num_heads * head_dim)),
        lse(static_cast<std::size_t>(rows * num_heads) * 4),
        segments(static_cast<std::size_t>(rows) * sizeof(AttentionSegment)) {
    problem = {rows, rows, num_heads, num_kv_heads, head_dim, 0, rows, 1.0f / std::sqrt(static_cast<float>(head_dim))};
    randomize(qkv, 1);
    randomize(grad_o, 2);
    workspace = std::make_unique<DeviceBuffer>(static_cast<std::size_t>(
        std::max(attention_forward_mma_workspace(problem), attention_backward_mma_workspace(problem))));
    cudaDeviceProp properties{};
    EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    num_sms = properties.multiProcessorCount;
  }
  static std::size_t bytes_of(std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; }
  static void randomize(const DeviceBuffer& buffer, std::uint64_t stream) {
    std::vector<bf16> values(buffer.size_bytes() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = bf16_from_f32(normal_at(7, stream, i));
    EXPECT_EQ(cudaMemcpy(buffer.as<void>(), values.data(), buffer.size_bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  // Documents of `length` rows over all rows; the rest of the table stays unused.
  void set_documents(std::int64_t length) {
    std::vector<AttentionSegment> table(static_cast<std::size_t>(rows));
    for (std::int64_t begin = 0; begin < rows; begin += length) {
      const auto first = static_cast<std::int32_t>(begin);
      const auto count = static_cast<std::int32_t>(std::min(length, rows - begin));
      table[static_cast<std::size_t>(begin / length)] = {first, count, first, count};
    }
    EXPECT_EQ(cudaMemcpy(segments.as<void>(), table.data(), segments.size_bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  AttentionMatrix<bf16> slice(const DeviceBuffer& buffer, int first_head) const {
    return {buffer.as<bf16>() + first_head * problem.head_dim, stride};
  }
  cudaError_t forward(cudaStream_t stream) const {
    const std::int64_t width = problem.num_heads * problem.head_dim;
    const auto q = slice(qkv, 0), k = slice(qkv, problem.num_heads),
               v = slice(qkv, problem.num_heads + problem.num_kv_heads);
    return attention_forward_mma({problem,
                                  segments.as<AttentionSegment>(),
                                  {q.data, stride},
                                  {k.data, stride},
                                  {v.data, stride},
                                  {o.as<bf16>(), width},
                                  {lse.as<float>(), problem.num_heads},
                                  workspace->as<void>(),
                                  num_sms},
                                 stream);
  }
  cudaError_t backward(cudaStream_t stream) const {
    const std::int64_t width = problem.num_heads * problem.head_dim;
    const auto q = slice(qkv, 0), k = slice(qkv, problem.num_heads),
               v = slice(qkv, problem.num_heads + problem.num_kv_heads);
    return attention_backward_mma({problem,
                                   segments.as<AttentionSegment>(),
                                   {grad_o.as<bf16>(), width},
                                   {q.data, stride},
                                   {k.data, stride},
                                   {v.data, stride},
                                   {o.as<bf16>(), width},
                                   {lse.as<float>(), problem.num_heads},
                                   slice(grads, 0),
                                   slice(grads, problem.num_heads),
                                   slice(grads, problem.num_heads + problem.num_kv_heads),
                                   workspace->as<void>(),
                                   num_sms},
                                  stream);
  }

  std::int64_t rows;
  std::int64_t stride;
  AttentionProblem problem;
  DeviceBuffer qkv, grads, o, grad_o, lse, segments;
  std::unique_ptr<DeviceBuffer> workspace;
  int num_sms = 1;
};

class CudaAttentionOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_present()) GTEST_SKIP() << "no CUDA device";
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  // Median milliseconds of a call, timed one by one behind three unmeasured ones.
  template <typename Call>
  double median_ms(Call&& call) {
    std::vector<double> times;
    cudaEvent_t begin, end;
    EXPECT_EQ(cudaEventCreate(&begin), cudaSuccess);
    EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
    for (int i = 0; i < 23; ++i) {
      cudaEventRecord(begin, stream_);
      EXPECT_EQ(call(stream_), cudaSuccess);
      cudaEventRecord(end, stream_);
      EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
      float ms = 0.0f;
      cudaEventElapsedTime(&ms, begin, end);
      if (i >= 3) times.push_back(static_cast<double>(ms));
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::nth_element(times.begin(), times.begin() + 10, times.end());
    return times[10];
  }
  cudaStream_t stream_ = nullptr;
};

TEST_F(CudaAttentionOnDevice, ACapturedGraphFollowsTheSegmentTable) {
  Problem p(4, 2, 64, 512);
  p.set_documents(512);
  ASSERT_EQ(p.forward(stream_), cudaSuccess);  // loads the kernels
  ASSERT_EQ(p.backward(stream_), cudaSuccess);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(p.forward(stream_), cudaSuccess);
  ASSERT_EQ(p.backward(stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (const std::int64_t length : {512, 100, 33}) {
    p.set_documents(length);
    ASSERT_EQ(p.forward(stream_), cudaSuccess);
    ASSERT_EQ(p.backward(stream_), cudaSuccess);
    const auto o = p.o.download(), grads = p.grads.download();
    Problem::randomize(p.o, 3);
    Problem::randomize(p.grads, 4);
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    EXPECT_EQ(p.o.download(), o) << length;
    EXPECT_EQ(p.grads.download(), grads) << length;
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

// Eight documents a row hold an eighth of the pairs.
TEST_F(CudaAttentionOnDevice, DocumentsShortenTheWork) {
  Problem p(32, 32, 64, 16384);
  p.set_documents(2048);
  const double whole_forward = median_ms([&](cudaStream_t s) { return p.forward(s); });
  const double whole_backward = median_ms([&](cudaStream_t s) { return p.backward(s); });
  p.set_documents(256);
  EXPECT_LT(median_ms([&](cudaStream_t s) { return p.forward(s); }), 0.5 * whole_forward);
  EXPECT_LT(median_ms([&](cudaStream_t s) { return p.backward(s); }), 0.5 * whole_backward);
}

// A table, not a test: --gtest_also_run_disabled_tests --gtest_filter='*Speed*'.
TEST_F(CudaAttentionOnDevice, DISABLED_SpeedTable) {
  struct Shape {
    int num_heads, num_kv_heads, head_dim;
    std::int64_t rows, length;
  };
  std::printf("heads kv  dim    rows  length   forward ms TFLOP/s   backward ms TFLOP/s\n");
  for (const Shape& s : {Shape{32, 32, 64, 16384, 2048}, Shape{32, 32, 64, 16384, 256}, Shape{9, 3, 64, 32768, 2048},
                         Shape{8, 8, 64, 65536, 1024}, Shape{16, 16, 128, 16384, 2048}, Shape{16, 4, 128, 16384, 8192},
                         Shape{16, 16, 96, 16384, 2048}, Shape{8, 8, 192, 16384, 2048}, Shape{8, 8, 256, 16384, 2048},
                         Shape{32, 32, 32, 16384, 2048}}) {
    Problem p(s.num_heads, s.num_kv_heads, s.head_dim, s.rows);
    p.set_documents(s.length);
    const double forward = median_ms([&](cudaStream_t stream) { return p.forward(stream); });
    const double backward = median_ms([&](cudaStream_t stream) { return p.backward(stream); });
    // Two products forward and five backward, half of the pairs: the count that other implementations are quoted by.
    const double product_flops = static_cast<double>(s.rows * s.length) * s.num_heads * s.head_dim;
    std::printf("%5d %2d %4d %7lld %7lld %12.3f %7.0f %13.3f %7.0f\n", s.num_heads, s.num_kv_heads, s.head_dim,
                static_cast<long long>(s.rows), static_cast<long long>(s.length), forward,
                2.0 * product_flops / forward * 1e-9, backward, 5.0 * product_flops / backward * 1e-9);
  }
}

}  // namespace
}  // namespace ida::cuda

// Which implementation takes what, without a device: lists are pure functions of the problem and DeviceInfo.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"

namespace ida::cuda {
namespace {

ops::AttentionDesc uniform_attention(std::int64_t head_dim) {
  return {.q_rows = 16384,
          .kv_rows = 16384,
          .num_heads = 32,
          .num_kv_heads = 32,
          .head_dim = head_dim,
          .max_segments = 16384,
          .scale = 0.125f,
          .dtype = DType::kBF16,
          .uniform_document_len = 2048};
}

TEST(CudaDispatch, UniformDocumentsTakeCudnnOnHopperAndTheOwnKernelElsewhere) {
  for (const auto& [card, engine] : {std::pair{"h200", "cudnn.attention"}, {"rtx5090", "own.attention_mma"}}) {
    const runtime::DeviceInfo device = known_device(card).value();
    const ops::Backend backend = make_cuda_backend(device);
    std::vector<ops::RefusalRecord> refused;
    const auto& impl = ops::choose(backend.attention_forward, uniform_attention(64), device, "attention", &refused);
    EXPECT_EQ(impl.name, engine) << (refused.empty() ? "" : refused.front().refusal.reason);
    EXPECT_EQ(ops::choose(backend.attention_backward, uniform_attention(64), device, "attention").name, engine);
  }
}

TEST(CudaDispatch, PackedDocumentsTakeTheOwnKernel) {
  const runtime::DeviceInfo device = known_device("h200").value();
  const ops::Backend backend = make_cuda_backend(device);
  ops::AttentionDesc desc = uniform_attention(64);
  desc.uniform_document_len = 0;
  EXPECT_EQ(ops::choose(backend.attention_forward, desc, device, "attention").name, "own.attention_mma");
  desc.dtype = DType::kF32;
  EXPECT_EQ(ops::choose(backend.attention_forward, desc, device, "attention").name, "own.attention_f32");
}

TEST(CudaDispatch, ProductsWithoutTheLibraryRunOnCudaCores) {
  runtime::DeviceInfo device = known_device("h200").value();
  const ops::GemmDesc desc{
      .m = 64, .n = 64, .k = 64, .a_dtype = DType::kBF16, .b_dtype = DType::kBF16, .c_dtype = DType::kBF16};
  EXPECT_EQ(ops::choose(make_cuda_backend(device).gemm, desc, device, "gemm").name, "cublaslt.bf16");
  device.cublaslt_version.clear();
  std::vector<ops::RefusalRecord> refused;
  EXPECT_EQ(ops::choose(make_cuda_backend(device).gemm, desc, device, "gemm", &refused).name, "own.simt");
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused.front().refusal.kind, ops::RefusalKind::kLibrary);
}

TEST(CudaDispatch, NoDeviceIsAnAnswerWithAReason) {
  const CudaSearch search = detect_cuda();
  EXPECT_TRUE(search.device.has_value() || !search.reason.empty());
  EXPECT_FALSE(known_device("voodoo2").has_value());
}

}  // namespace
}  // namespace ida::cuda

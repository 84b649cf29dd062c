// What cuDNN's heuristics say about our attention graphs on sm_90, asked without a GPU: the device is a document of
// properties, and the toolkit's stub of libcuda stands in for the driver (see CMakeLists.txt). Skipped without cuDNN.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cuda/attention_cudnn_problem.h"
#include "backend/cuda/cudnn_plan.h"

namespace ida::cuda {
namespace {

// An H200 as cuDNN writes one.
constexpr const char* kH200 = R"({"deviceVer":900,"driverVer":13000,"cudaDeviceId":0,"deviceName":"NVIDIA H200",
"totalGlobalMem":150000000000,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,
"memClockRateKHz":3201000,"l2CacheSize":62914560})";

runtime::DeviceInfo h200() {
  runtime::DeviceInfo device;
  device.backend = runtime::BackendKind::kCuda;
  device.sm = 90;
  device.num_cores = 132;
  device.cudnn_version = 91900;
  return device;
}

struct Heads {
  std::int64_t q, kv;
};

ops::AttentionDesc uniform(std::int64_t batch, std::int64_t len, Heads heads, std::int64_t head_dim) {
  ops::AttentionDesc desc;
  desc.q_rows = desc.kv_rows = batch * len;
  desc.num_heads = heads.q;
  desc.num_kv_heads = heads.kv;
  desc.head_dim = head_dim;
  desc.dtype = DType::kBF16;
  desc.max_segments = desc.q_rows;
  desc.uniform_document_len = len;
  return desc;
}

// Views as the decoder has them: q, k, v and their gradients in fused rows.
struct FusedViews {
  explicit FusedViews(const ops::AttentionDesc& d) {
    const std::int64_t q_cols = d.num_heads * d.head_dim, kv_cols = d.num_kv_heads * d.head_dim;
    const std::int64_t fused = q_cols + 2 * kv_cols;
    q = {nullptr, DType::kBF16, d.q_rows, q_cols, fused};
    kv = {nullptr, DType::kBF16, d.q_rows, kv_cols, fused};
    o = {nullptr, DType::kBF16, d.q_rows, q_cols, q_cols};
  }
  TensorView q, kv, o;
};

enum class Pass { kForward, kBackward };

std::vector<CudnnProposal> proposals(const ops::AttentionDesc& desc, Pass pass) {
  CudnnGraph graph(*cudnn());
  const FusedViews views(desc);
  const TensorView none;
  CudnnLimits limits;
  if (pass == Pass::kForward) {
    build_attention_forward(graph, forward_graph_shape(desc, {views.q, views.kv, views.kv, none, views.o, none}));
    limits.max_workspace_bytes = cudnn_forward_limit(desc);
  } else {
    const ops::AttentionBackwardArgs args = {views.o, views.q, views.kv, views.kv, views.o,
                                             none,    none,    views.q,  views.kv, views.kv};
    build_attention_backward(graph, backward_graph_shape(desc, args), desc.deterministic);
    limits = {.deterministic = desc.deterministic, .max_workspace_bytes = cudnn_backward_limit(desc)};
  }
  CudnnProposals found(graph, {.handle = nullptr, .device_json = kH200}, limits);
  return std::move(found.list());
}

class CudnnProposalsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cudnn() == nullptr) GTEST_SKIP() << "no cuDNN: " << cudnn_search_report();
    if (std::getenv("IDA_CUDA_STUB") == nullptr) GTEST_SKIP() << "no stub of libcuda.so.1 beside the toolkit";
  }
};

// The first choice of cuDNN fits the workspace that a plan reserves for it.
void expect_first_choice_fits(const ops::AttentionDesc& desc, Pass pass) {
  SCOPED_TRACE(desc.to_string() + " documents of " + std::to_string(desc.uniform_document_len) +
               (pass == Pass::kForward ? " forward" : " backward"));
  const auto supports = pass == Pass::kForward ? cudnn_attention_forward_supports : cudnn_attention_backward_supports;
  if (supports(desc, h200())) return;
  const std::vector<CudnnProposal> found = proposals(desc, pass);
  ASSERT_FALSE(found.empty()) << "no engine recognises the graph";
  EXPECT_EQ(found.front().refusal, "");
}

constexpr Heads kHeads[] = {{32, 32}, {9, 3}};

TEST_F(CudnnProposalsTest, UniformFitsItsWorkspace) {
  for (const Heads heads : kHeads) {
    for (const std::int64_t head_dim : {8, 128, 256}) {
      for (const std::int64_t len : {2, 1000, 2048}) {
        for (const std::int64_t batch : {1, 64}) {
          ops::AttentionDesc desc = uniform(batch, len, heads, head_dim);
          expect_first_choice_fits(desc, Pass::kForward);
          for (const bool deterministic : {false, true}) {
            desc.deterministic = deterministic;
            expect_first_choice_fits(desc, Pass::kBackward);
          }
        }
      }
    }
  }
}

// A tighter limit is kept: what does not fit is passed over with the sizes.
TEST_F(CudnnProposalsTest, WorkspaceBeyondTheLimitIsRefused) {
  ops::AttentionDesc desc = uniform(8, 2048, {32, 32}, 64);
  desc.deterministic = true;
  for (const CudnnProposal& found : proposals(desc, Pass::kBackward))
    EXPECT_GT(found.workspace_bytes, std::int64_t{1} << 31);
  CudnnGraph graph(*cudnn());
  const FusedViews views(desc);
  build_attention_forward(graph, forward_graph_shape(desc, {views.q, views.kv, views.kv, {}, views.o, {}}));
  CudnnProposals none_fit(graph, {.handle = nullptr, .device_json = kH200}, {.max_workspace_bytes = -1});
  ASSERT_FALSE(none_fit.list().empty());
  for (const CudnnProposal& found : none_fit.list()) {
    EXPECT_NE(found.refusal.find("bytes of workspace, -1 were planned"), std::string::npos) << found.refusal;
  }
}

TEST_F(CudnnProposalsTest, APlanForADeviceThatIsNotHereSaysWhy) {
  CudnnGraph graph(*cudnn());
  const ops::AttentionDesc desc = uniform(1, 128, {1, 1}, 128);
  const FusedViews views(desc);
  build_attention_forward(graph, forward_graph_shape(desc, {views.q, views.kv, views.kv, {}, views.o, {}}));
  try {
    const CudnnPlan plan(graph, {.handle = nullptr, .device_json = kH200}, {.max_workspace_bytes = 0});
    FAIL() << "the stub loaded code";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_NE(std::string(error.what()).find("has no plan for the graph: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("; engine "), std::string::npos) << error.what();
  }
}

// ---- refusals, which need no library ----

std::string forward_refusal(const ops::AttentionDesc& desc) {
  return std::string(cudnn_attention_forward_supports(desc, h200()).reason);
}
std::string backward_refusal(const ops::AttentionDesc& desc) {
  return std::string(cudnn_attention_backward_supports(desc, h200()).reason);
}

TEST(CudnnAttentionRefusals, ByDevice) {
  const ops::AttentionDesc desc = uniform(8, 2048, {32, 32}, 64);
  EXPECT_FALSE(cudnn_attention_forward_supports(desc, h200()));
  runtime::DeviceInfo device = h200();
  device.cudnn_version = 0;
  EXPECT_EQ(cudnn_attention_forward_supports(desc, device).kind, ops::RefusalKind::kLibrary);
  device.cudnn_version = 91501;
  EXPECT_EQ(cudnn_attention_backward_supports(desc, device).kind, ops::RefusalKind::kLibrary);
  device = h200();
  device.sm = 120;
  EXPECT_EQ(cudnn_attention_forward_supports(desc, device).kind, ops::RefusalKind::kNotPromoted);
  device.backend = runtime::BackendKind::kCpu;
  EXPECT_EQ(cudnn_attention_forward_supports(desc, device).kind, ops::RefusalKind::kHardware);
}

TEST(CudnnAttentionRefusals, ByProblem) {
  ops::AttentionDesc desc = uniform(8, 2048, {9, 3}, 64);
  EXPECT_EQ(forward_refusal(desc), "");
  desc.dtype = DType::kF32;
  EXPECT_EQ(forward_refusal(desc), "takes bf16");
  EXPECT_EQ(forward_refusal(uniform(8, 2048, {9, 3}, 60)), "head_dim must be a multiple of 8, at most 256");
  EXPECT_EQ(forward_refusal(uniform(8, 2048, {9, 3}, 264)), "head_dim must be a multiple of 8, at most 256");
  EXPECT_EQ(forward_refusal(uniform(8, 2048, {9, 2}, 64)), "num_heads must be a multiple of num_kv_heads");
  EXPECT_EQ(forward_refusal(uniform(8, 1, {9, 3}, 64)), "documents of one token are not taken");
  desc = uniform(8, 2048, {9, 3}, 64);
  desc.kv_rows += 1;
  EXPECT_EQ(forward_refusal(desc), "uniform documents must fill the rows of queries and keys");
  desc.q_rows += 1;
  EXPECT_EQ(forward_refusal(desc), "uniform documents must fill the rows of queries and keys");
}

TEST(CudnnAttentionRefusals, WhatFailedItsTests) {
  ops::AttentionDesc desc = uniform(8, 2048, {9, 3}, 64);
  desc.window = 256;
  EXPECT_EQ(forward_refusal(desc), "windows failed their tests on cuDNN 9.19");
  EXPECT_EQ(backward_refusal(desc), "windows failed their tests on cuDNN 9.19");
  desc.uniform_document_len = 0;  // nothing is promised of the table
  EXPECT_EQ(forward_refusal(desc), "packed documents failed their tests on cuDNN 9.19");
  EXPECT_EQ(backward_refusal(desc), "packed documents failed their tests on cuDNN 9.19");
  EXPECT_EQ(cudnn_attention_forward_supports(desc, h200()).kind, ops::RefusalKind::kNotPromoted);
}

TEST(CudnnAttentionRefusals, ByDeterminism) {
  for (const std::int64_t len : {2048, 4096}) {
    ops::AttentionDesc desc = uniform(8, len, {32, 32}, 64);
    EXPECT_EQ(backward_refusal(desc), "");
    desc.deterministic = true;
    EXPECT_EQ(forward_refusal(desc), "");
    EXPECT_EQ(backward_refusal(desc), len == 2048 ? "" : "deterministic backward would keep over 4 GiB of scores");
  }
}

// Workspaces: measured with a null base, laid out from a real one, and inside the size that was measured.
TEST(CudnnAttentionWorkspace, PartsLieInside) {
  for (const ops::AttentionDesc& desc : {uniform(3, 100, {4, 2}, 32), uniform(3, 100, {4, 4}, 32)}) {
    const std::int64_t size = cudnn_attention_backward_workspace(desc, h200());
    std::vector<std::byte> memory(static_cast<std::size_t>(size));
    const AttentionBackwardParts parts(desc, memory.data());
    EXPECT_EQ(parts.parts.total_bytes(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parts.library) % 256, 0u);
    EXPECT_LE(parts.library + cudnn_backward_limit(desc), memory.data() + size);
  }
}

}  // namespace
}  // namespace ida::cuda

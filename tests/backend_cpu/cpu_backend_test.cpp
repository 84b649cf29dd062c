// Which implementation of a matrix product runs, and why others do not.
#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cpu/onednn.h"

namespace ida::cpu {
namespace {

const ops::GemmDesc kF32 = {.m = 64, .n = 64, .k = 64};
const ops::GemmDesc kBf16 = {.m = 64, .n = 64, .k = 64, .a_dtype = DType::kBF16, .b_dtype = DType::kBF16};

struct Choice {
  std::string name;
  std::vector<ops::RefusalRecord> refused;
};
Choice choose_gemm(const ops::GemmDesc& desc, const runtime::DeviceInfo& device, const CpuBackendOptions& options = {}) {
  Choice choice;
  choice.name = ops::choose(make_cpu_backend(device, options).gemm, desc, device, "gemm", &choice.refused).name;
  return choice;
}

TEST(CpuBackend, F32PrefersTheOwnForm) { EXPECT_EQ(choose_gemm(kF32, {}).name, "cpu.blocked.f32"); }

TEST(CpuBackend, Bf16WithoutAmxIsWidened) {
  const Choice choice = choose_gemm(kBf16, {});
  EXPECT_EQ(choice.name, "cpu.blocked.bf16_widened");
  ASSERT_EQ(choice.refused.size(), 1u);
  EXPECT_EQ(choice.refused[0].impl, "cpu.onednn.bf16");
  EXPECT_EQ(choice.refused[0].refusal.kind, ops::RefusalKind::kHardware);
}

TEST(CpuBackend, Bf16WithAmxUsesOneDnnUnlessSwitchedOff) {
  runtime::DeviceInfo device;
  device.cpu.amx_bf16 = true;
  const Choice absent = choose_gemm(kBf16, device);
  EXPECT_EQ(absent.name, "cpu.blocked.bf16_widened");
  EXPECT_EQ(absent.refused.at(0).refusal.kind, ops::RefusalKind::kLibrary);
  const Choice off = choose_gemm(kBf16, device, {.use_onednn = false});
  EXPECT_EQ(off.name, "cpu.blocked.bf16_widened");
  EXPECT_EQ(off.refused.at(0).refusal.kind, ops::RefusalKind::kSwitchedOff);
  if (onednn() == nullptr) GTEST_SKIP() << onednn_search_report();
  device.onednn_version = onednn()->version();
  EXPECT_EQ(choose_gemm(kBf16, device).name, "cpu.onednn.bf16");
}

TEST(CpuBackend, EveryListEndsWithSomethingThatRuns) {
  const ops::Backend backend = make_cpu_backend({});
  EXPECT_EQ(backend.gemm.back().name, "cpu.definition");
  EXPECT_FALSE(backend.rms_norm_forward.empty());
  EXPECT_FALSE(backend.rms_norm_backward.empty());
  EXPECT_FALSE(backend.rope.empty());
  EXPECT_FALSE(backend.attention_forward.empty());
  EXPECT_FALSE(backend.attention_backward.empty());
  EXPECT_FALSE(backend.swiglu_forward.empty());
  EXPECT_FALSE(backend.swiglu_backward.empty());
  EXPECT_FALSE(backend.embedding_forward.empty());
  EXPECT_FALSE(backend.embedding_backward.empty());
  EXPECT_FALSE(backend.cross_entropy.empty());
  EXPECT_FALSE(backend.add.empty());
  EXPECT_FALSE(backend.convert.empty());
  EXPECT_FALSE(backend.bias_grad.empty());
  EXPECT_FALSE(backend.sum_squares.empty());
  EXPECT_FALSE(backend.optimizer.empty());
}

}  // namespace
}  // namespace ida::cpu

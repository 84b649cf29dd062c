#include "train/kernel_proof.h"

#include <gtest/gtest.h>

namespace ida::train {
namespace {

const runtime::KernelCountsByOp kRecorded = {
    {"gemm/cublaslt.bf16", {{"nvjet", 4}}}, {"rope/own.rope", {{"rope_kernel", 2}}}, {"gemm/cublaslt.f32", {{"nvjet", 1}}}};

TEST(KernelProof, EqualCountsDifferNowhere) {
  EXPECT_TRUE(kernel_differences({{"nvjet", 5}, {"rope_kernel", 2}}, kRecorded).empty());
  EXPECT_TRUE(kernel_differences({{"nvjet", 5}, {"rope_kernel", 2}, {"memset32", 3}}, kRecorded).empty());
}

TEST(KernelProof, EveryDifferenceIsNamed) {
  const std::vector<std::string> lines = kernel_differences({{"nvjet", 4}, {"stranger", 1}}, kRecorded);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "nvjet: the driver saw 4, the recordings hold 5");
  EXPECT_EQ(lines[1], "rope_kernel: the driver saw 0, the recordings hold 2");
  EXPECT_EQ(lines[2], "stranger: the driver saw 1, the recordings hold 0");
}

}  // namespace
}  // namespace ida::train

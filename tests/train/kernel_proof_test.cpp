// Which step is watched, and what the driver's records of it are held against.
#include "train/kernel_proof.h"

#include "support/tiny_model.h"
#include "train/recording_device.h"

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

class KernelProofOfAnEngine : public ::testing::Test {
 protected:
  // A step of one micro-batch: four parts, each a recording from its second use on.
  void step(KernelProof& proof, const data::Batch& batch) {
    proof.before_step(engine_);
    ++steps_;
    engine_.update(steps_, 1e-3, engine_.accumulate(batch).grad_norm);
    proof.after_step(engine_, steps_);
  }
  void steps(KernelProof& proof, int count) {
    for (int i = 0; i < count; ++i) step(proof, packed_);
  }
  RecordingDevice device_;
  testing::EngineFixture fixture_;
  const data::Batch packed_ = testing::make_batch({{17, 11}}, 32, 61, 2);
  const data::Batch uniform_ = testing::make_batch({{32}}, 32, 61, 2);
  Engine engine_{fixture_.spec(testing::tiny_config(), packed_), device_, fixture_.backend()};
  std::int64_t steps_ = 0;
};

TEST_F(KernelProofOfAnEngine, TheThirdStepIsWatchedAndNoOther) {
  KernelProof proof(true);
  steps(proof, 2);
  EXPECT_EQ(device_.windows, 0);
  EXPECT_TRUE(proof.kernels().empty());
  steps(proof, 3);
  EXPECT_EQ(device_.windows, 1);
  EXPECT_EQ(proof.facts().step, 3);
  EXPECT_EQ(proof.facts().absent, "");
  EXPECT_EQ(proof.kernels(), (evidence::Counts{{"kernel_a", 12}, {"kernel_b", 12}}));
  EXPECT_EQ(proof.facts().by_op, (std::map<std::string, evidence::Counts>{
                                     {"gemm/some", {{"kernel_a", 8}}}, {"rope/own", {{"kernel_a", 4}, {"kernel_b", 12}}}}));
  EXPECT_TRUE(proof.facts().differences.empty()) << proof.facts().differences.front();
}

TEST_F(KernelProofOfAnEngine, AKernelThatTheDriverDidNotSeeIsNamed) {
  device_.unseen = "kernel_b";
  KernelProof proof(true);
  steps(proof, 3);
  EXPECT_EQ(proof.facts().differences, std::vector<std::string>{"kernel_b: the driver saw 0, the recordings hold 12"});
}

TEST_F(KernelProofOfAnEngine, AStepWithAnUnrecordedPartIsPassedOver) {
  KernelProof proof(true);
  steps(proof, 2);
  step(proof, uniform_);  // its micro-batch for the first time
  EXPECT_EQ(proof.facts().step, 0);
  EXPECT_TRUE(proof.kernels().empty());
  step(proof, uniform_);
  EXPECT_EQ(proof.facts().step, 4);
  EXPECT_EQ(device_.windows, 2);
  EXPECT_TRUE(proof.facts().differences.empty());
}

TEST_F(KernelProofOfAnEngine, NothingIsWatchedWhereItIsNotWanted) {
  KernelProof proof(false);
  steps(proof, 4);
  EXPECT_EQ(device_.windows, 0);
  EXPECT_EQ(proof.facts(), evidence::KernelWindowFacts{});
}

TEST_F(KernelProofOfAnEngine, WithoutRecordsOfTheDriverTheReasonIsKept) {
  device_.no_window = "no CUPTI";
  KernelProof proof(true);
  steps(proof, 4);
  EXPECT_EQ(proof.facts().absent, "no CUPTI");
  EXPECT_EQ(proof.facts().step, 0);
}

TEST_F(KernelProofOfAnEngine, StepsThatAreNeverRecordedEndTheSearch) {
  EngineSpec spec = engine_.spec();
  spec.graphs = false;
  Engine engine(spec, device_, fixture_.backend());
  KernelProof proof(true);
  for (int i = 1; i <= 20; ++i) {
    proof.before_step(engine);
    engine.update(i, 1e-3, engine.accumulate(packed_).grad_norm);
    proof.after_step(engine, i);
  }
  EXPECT_EQ(device_.windows, 8);
  EXPECT_EQ(proof.facts().absent, "no step was made of recordings alone");
}

}  // namespace
}  // namespace ida::train

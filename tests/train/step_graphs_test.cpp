// Recordings on a device that only keeps the functions: which use is enqueued, recorded, replayed, and what is counted.
#include "train/step_graphs.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "support/tiny_model.h"

namespace ida::train {
namespace {

class KeptWork : public runtime::Recording {
 public:
  explicit KeptWork(std::function<void()> work) : work_(std::move(work)) {}
  const runtime::KernelCountsByOp& kernels() const override { return kernels_; }
  void run() const { work_(); }

 private:
  std::function<void()> work_;
  runtime::KernelCountsByOp kernels_ = {{"gemm/some", {{"kernel_a", 2}}}, {"rope/own", {{"kernel_a", 1}, {"kernel_b", 3}}}};
};

// As a GPU does: work is called while it is recorded, but runs only when it is replayed.
class RecordingDevice : public cpu::CpuDevice {
 public:
  bool can_record() const override { return true; }
  std::unique_ptr<runtime::Recording> record(const std::function<void()>& enqueue) override {
    ++recordings;
    const int before = runs;
    enqueue();
    runs = before;
    return std::make_unique<KeptWork>([this] { ++runs; });
  }
  void replay(const runtime::Recording& recording) override { static_cast<const KeptWork&>(recording).run(); }
  int recordings = 0;
  int runs = 0;
};

class StepGraphsTest : public ::testing::Test {
 protected:
  void use(StepGraphs& graphs, const GraphKey& key) {
    graphs.run(key, [&] {
      ++device_.runs;
      ++context_.calls.ops[{"rope", "own"}];
      context_.calls.gemms.count_call("qkv", "some");
      context_.calls.gemm_flops += 10.0;
    });
  }
  RecordingDevice device_;
  ops::Backend backend_;
  runtime::Arena arena_;
  ops::Context context_{device_.info(), backend_, arena_};
};

TEST_F(StepGraphsTest, RunsThenRecordsThenReplaysAndCountsEveryUse) {
  StepGraphs graphs(device_, context_, true);
  for (int i = 1; i <= 5; ++i) {
    use(graphs, {.first = true});
    EXPECT_EQ(device_.runs, i) << "every use runs once";
    EXPECT_EQ((context_.calls.ops.at({"rope", "own"})), i);
    EXPECT_EQ(context_.calls.gemms.calls.at("qkv").at("some"), i);
    EXPECT_EQ(context_.calls.gemm_flops, 10.0 * i);
  }
  EXPECT_EQ(device_.recordings, 1);
  EXPECT_EQ(graphs.unrecorded_uses(), 1);
  EXPECT_EQ(graphs.replays(), (std::map<std::string, std::int64_t>{{"micro_batch first packed", 4}}));
  EXPECT_EQ(graphs.replayed_kernels().at("rope/own").at("kernel_b"), 12);
}

TEST_F(StepGraphsTest, EveryKeyHasItsOwnRecording) {
  StepGraphs graphs(device_, context_, true);
  const GraphKey keys[] = {{.first = true},
                           {.first = false},
                           {.first = false, .uniform_document_len = 128},
                           {.part = GraphKey::Part::kNorm},
                           {.part = GraphKey::Part::kUpdate}};
  for (int i = 0; i < 3; ++i)
    for (const GraphKey& key : keys) use(graphs, key);
  EXPECT_EQ(device_.recordings, 5);
  EXPECT_EQ(graphs.replays().at("micro_batch later documents=128"), 2);
  EXPECT_EQ(graphs.replays().at("update"), 2);
}

TEST_F(StepGraphsTest, SwitchedOffOrWithoutRecordingsEveryUseIsEnqueued) {
  StepGraphs off(device_, context_, false);
  for (int i = 0; i < 3; ++i) use(off, {});
  EXPECT_EQ(device_.recordings, 0);
  EXPECT_EQ(off.unrecorded_uses(), 3);
  EXPECT_TRUE(off.replays().empty());
}

}  // namespace
}  // namespace ida::train

// Recordings on a device that only counts: which use is enqueued, recorded, replayed, and what is counted.
#include "train/step_graphs.h"

#include "support/tiny_model.h"
#include "train/recording_device.h"

namespace ida::train {
namespace {

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
                           {.first = false, .uniform_document_len = 64},
                           {.part = GraphKey::Part::kFinishGradients},
                           {.part = GraphKey::Part::kNorm},
                           {.part = GraphKey::Part::kUpdate}};
  for (int i = 0; i < 3; ++i)
    for (const GraphKey& key : keys) use(graphs, key);
  EXPECT_EQ(device_.recordings, 7);
  EXPECT_EQ(graphs.replays(), (std::map<std::string, std::int64_t>{{"micro_batch first packed", 2},
                                                                   {"micro_batch later packed", 2},
                                                                   {"micro_batch later documents=128", 2},
                                                                   {"micro_batch later documents=64", 2},
                                                                   {"finish_gradients", 2},
                                                                   {"gradient_norm", 2},
                                                                   {"update", 2}}));
}

TEST_F(StepGraphsTest, SwitchedOffEveryUseIsEnqueued) {
  StepGraphs off(device_, context_, false);
  for (int i = 0; i < 3; ++i) use(off, {});
  EXPECT_EQ(device_.runs, 3);
  EXPECT_EQ(device_.recordings, 0);
  EXPECT_EQ(off.unrecorded_uses(), 3);
  EXPECT_TRUE(off.replays().empty());
}

TEST_F(StepGraphsTest, OnADeviceThatCannotRecordEveryUseIsEnqueued) {
  cpu::CpuDevice device;
  StepGraphs graphs(device, context_, true);
  for (int i = 0; i < 3; ++i) use(graphs, {});
  EXPECT_EQ(device_.runs, 3);
  EXPECT_EQ(graphs.unrecorded_uses(), 3);
  EXPECT_TRUE(graphs.replays().empty());
}

// Two steps of `batch`, of two micro-batches each.
void two_steps(Engine& engine, const data::Batch& batch) {
  for (int i = 1; i <= 2; ++i) engine.update(i, 1e-3, engine.accumulate(batch).grad_norm);
}

// What the engine says of a part decides which recording is replayed in its place.
TEST(StepGraphsOfAnEngine, TheFirstMicroBatchAndUniformDocumentsAreTold) {
  testing::EngineFixture fixture;
  RecordingDevice device;
  const data::Batch packed = testing::make_batch({{16, 16}, {17, 11}}, 32, 61, 2);
  EngineSpec spec = fixture.spec(testing::tiny_config(), packed);
  spec.micro_batch_rows = 1;
  Engine engine(spec, device, fixture.backend());
  two_steps(engine, packed);
  two_steps(engine, testing::make_batch({{32}, {32}}, 32, 61, 2));
  EXPECT_EQ(engine.graphs().replays(), (std::map<std::string, std::int64_t>{{"micro_batch first packed", 1},
                                                                            {"micro_batch later packed", 1},
                                                                            {"micro_batch first documents=32", 1},
                                                                            {"micro_batch later documents=32", 1},
                                                                            {"finish_gradients", 3},
                                                                            {"gradient_norm", 3},
                                                                            {"update", 3}}));
}

TEST(StepGraphsOfAnEngine, NothingIsRecordedWhereTheyAreSwitchedOff) {
  testing::EngineFixture fixture;
  RecordingDevice device;
  const data::Batch batch = testing::make_batch({{17, 11}}, 32, 61, 2);
  EngineSpec spec = fixture.spec(testing::tiny_config(), batch);
  spec.graphs = false;
  Engine engine(spec, device, fixture.backend());
  two_steps(engine, batch);
  EXPECT_EQ(device.recordings, 0);
  EXPECT_EQ(engine.graphs().unrecorded_uses(), 8);
}

}  // namespace
}  // namespace ida::train

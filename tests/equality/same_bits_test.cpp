// What must not change a single bit: recomputation, the number of threads, a second run.
#include "support/tiny_model.h"

namespace ida::testing {
namespace {

struct Case {
  const char* name;
  DType dtype;
  bool busy;
};

class SameBits : public ::testing::TestWithParam<Case> {
 protected:
  model::ModelConfig config() const { return GetParam().busy ? busy_config() : tiny_config(); }
  // Long enough that every loop has several blocks for two threads.
  data::Batch batch() const { return make_batch({{150, 37, 61}, {256}}, 256, config().vocab_size, 12); }
  EngineFixture fixture_;
};

TEST_P(SameBits, Recompute) {
  const data::Batch batch = this->batch();
  train::EngineSpec spec = fixture_.spec(config(), batch, GetParam().dtype);
  const auto kept = fixture_.gradient(spec, batch);
  for (const model::Recompute recompute : {model::Recompute::kMlp, model::Recompute::kBlock}) {
    spec.recompute = recompute;
    const auto again = fixture_.gradient(spec, batch);
    EXPECT_EQ(again.result.loss, kept.result.loss);
    EXPECT_TRUE(same_bits(again.values, kept.values));
  }
}

TEST_P(SameBits, RecomputeSavesMemory) {
  const data::Batch batch = this->batch();
  train::EngineSpec spec = fixture_.spec(config(), batch, GetParam().dtype);
  const auto bytes = [&] {
    return train::plan_step(spec, fixture_.device().info(), fixture_.backend()).memory.total_bytes;
  };
  const std::int64_t none = bytes();
  spec.recompute = model::Recompute::kMlp;
  const std::int64_t mlp = bytes();
  spec.recompute = model::Recompute::kBlock;
  EXPECT_LT(mlp, none);
  EXPECT_LT(bytes(), mlp);
}

TEST_P(SameBits, Threads) {
  const data::Batch batch = this->batch();
  const train::EngineSpec spec = fixture_.spec(config(), batch, GetParam().dtype);
  set_num_threads(1);
  const auto one = fixture_.gradient(spec, batch);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    const auto many = fixture_.gradient(spec, batch);
    EXPECT_EQ(many.result.loss, one.result.loss) << threads;
    EXPECT_EQ(many.result.grad_norm, one.result.grad_norm) << threads;
    EXPECT_TRUE(same_bits(many.values, one.values)) << threads;
  }
  set_num_threads(0);
}

TEST_P(SameBits, FreshMemoryAndUsedMemory) {
  const data::Batch batch = this->batch();
  train::Engine engine(fixture_.spec(config(), batch, GetParam().dtype), fixture_.device(), fixture_.backend());
  engine.set_masters(random_masters(engine.table(), 7));
  std::vector<float> first(static_cast<std::size_t>(engine.table().total_elems));
  std::vector<float> second(first.size());
  engine.accumulate(batch);
  engine.read_buffer(engine.buffers().grads, first.data());
  std::vector<float> nll(batch.tokens.size());
  engine.evaluate(batch, nll);  // leaves other values in the same memory
  engine.accumulate(batch);
  engine.read_buffer(engine.buffers().grads, second.data());
  EXPECT_TRUE(same_bits(first, second));
}

INSTANTIATE_TEST_SUITE_P(All, SameBits,
                         ::testing::Values(Case{"plain_f32", DType::kF32, false}, Case{"busy_f32", DType::kF32, true},
                                           Case{"busy_bf16", DType::kBF16, true}),
                         [](const auto& param_info) { return param_info.param.name; });

// The arena of the engine is as large as its plan says and a step never asks for more.
TEST(Memory, ArenaEqualsPlan) {
  EngineFixture fixture;
  const data::Batch batch = make_batch({{30, 2}, {32}}, 32, 61, 12);
  for (const auto recompute : {model::Recompute::kNone, model::Recompute::kMlp, model::Recompute::kBlock}) {
    train::EngineSpec spec = fixture.spec(busy_config(), batch);
    spec.recompute = recompute;
    train::Engine engine(spec, fixture.device(), fixture.backend());
    engine.set_masters(random_masters(engine.table(), 7));
    for (std::int64_t step = 1; step <= 2; ++step) {
      const train::StepResult result = engine.accumulate(batch);
      engine.update(step, 1e-3, result.grad_norm);
    }
    EXPECT_EQ(engine.arena().high_water_bytes(), engine.plan().memory.total_bytes);
    EXPECT_EQ(engine.arena().capacity_bytes(), engine.plan().memory.total_bytes);
  }
}

// What the plan says will run is what is counted.
TEST(Memory, CallsEqualPlan) {
  EngineFixture fixture;
  const data::Batch batch = make_batch({{30, 2}, {32}}, 32, 61, 12);
  train::EngineSpec spec = fixture.spec(busy_config(), batch);
  spec.micro_batch_rows = 1;
  train::Engine engine(spec, fixture.device(), fixture.backend());
  engine.set_masters(random_masters(engine.table(), 7));
  engine.accumulate(batch);
  ops::EngineCounters planned;
  planned.add(engine.plan().micro_batch_calls);
  planned.add(engine.plan().micro_batch_calls);
  EXPECT_EQ(engine.context().calls.gemms.calls, planned.calls);
  EXPECT_TRUE(engine.context().calls.gemms.fallbacks.empty());
  EXPECT_EQ(engine.context().calls.gemm_flops, 2.0 * engine.plan().micro_batch_gemm_flops);
}

}  // namespace
}  // namespace ida::testing

// The engine's update against plain formulas, and the gradient against finite differences of the whole model.
#include "train/engine.h"

#include "support/tiny_model.h"

namespace ida::testing {
namespace {

double loss_at(EngineFixture& fixture, const train::EngineSpec& spec, const data::Batch& batch,
               std::span<const float> masters) {
  train::Engine engine(spec, fixture.device(), fixture.backend());
  engine.set_masters(masters);
  std::vector<float> nll(batch.tokens.size());
  engine.evaluate(batch, nll);
  return std::accumulate(nll.begin(), nll.end(), 0.0) / static_cast<double>(batch.num_targets);
}

// Along the gradient's own direction the central difference of the loss is the gradient's norm. At h = 5e-3
// the truncation error, O(h^2), was seen below 7e-4 of the norm; the f32 losses resolve about 1e-7 / h.
TEST(Engine, GradientMatchesFiniteDifferencesOfEveryParameter) {
  EngineFixture fixture;
  const model::ModelConfig config = busy_config();
  const data::Batch batch = make_batch({{17, 11}, {30}}, 32, config.vocab_size, 2);
  const train::EngineSpec spec = fixture.spec(config, batch);
  const model::ParamTable table = model::build_param_table(config);
  const std::vector<float> masters = random_masters(table, 7);
  const auto g = fixture.gradient(spec, batch);
  for (const model::ParamSpec& p : table.params) {
    const std::span<const float> grad(g.values.data() + p.offset_elems, static_cast<std::size_t>(p.numel()));
    double norm = 0.0;
    for (const float x : grad) norm += static_cast<double>(x) * x;
    norm = std::sqrt(norm);
    if (norm < 1e-4) continue;  // below what the difference of two f32 losses resolves
    constexpr double kStep = 5e-3;
    double side[2];
    for (int s = 0; s < 2; ++s) {
      std::vector<float> moved = masters;
      for (std::size_t i = 0; i < grad.size(); ++i)
        moved[static_cast<std::size_t>(p.offset_elems) + i] +=
            static_cast<float>((s == 0 ? kStep : -kStep) * grad[i] / norm);
      side[s] = loss_at(fixture, spec, batch, moved);
    }
    EXPECT_NEAR((side[0] - side[1]) / (2.0 * kStep), norm, 1e-3 * norm + 1e-4) << p.name;
  }
}

// B149: with lr > 0 and no gradient to speak of, only decay moves weights, and norms and biases are not decayed.
TEST(Engine, DecayLeavesVectorsAlone) {
  EngineFixture fixture;
  const model::ModelConfig config = busy_config();
  const data::Batch batch = make_batch({{1}}, 4, config.vocab_size, 2);  // no target: gradient 0
  train::EngineSpec spec = fixture.spec(config, batch);
  spec.optimizer.weight_decay = 0.1;
  train::Engine engine(spec, fixture.device(), fixture.backend());
  const std::vector<float> before = random_masters(engine.table(), 7);
  engine.set_masters(before);
  const train::StepResult result = engine.accumulate(batch);
  engine.update(1, 1e-2, result.grad_norm);
  std::vector<float> after(before.size());
  engine.read_buffer(engine.buffers().weights, after.data());
  for (const model::ParamSpec& p : engine.table().params) {
    for (std::int64_t i = 0; i < p.numel(); ++i) {
      const auto at = static_cast<std::size_t>(p.offset_elems + i);
      if (p.is_matrix()) {
        ASSERT_FLOAT_EQ(after[at], before[at] * (1.0f - 1e-2f * 0.1f)) << p.name;
      } else {
        ASSERT_EQ(after[at], before[at]) << p.name;
      }
    }
  }
}

// B070: a tied matrix is one parameter; its gradient is the sum of both uses.
TEST(Engine, TiedGradientIsTheSumOfBothUses) {
  EngineFixture fixture;
  model::ModelConfig tied = tiny_config();
  tied.tie_word_embeddings = true;
  const model::ModelConfig untied = tiny_config();
  const data::Batch batch = make_batch({{17, 11}}, 32, tied.vocab_size, 2);
  const model::ParamTable tied_table = model::build_param_table(tied);
  const model::ParamTable table = model::build_param_table(untied);
  const std::vector<float> tied_masters = random_masters(tied_table, 7);
  std::vector<float> masters(static_cast<std::size_t>(table.total_elems), 0.0f);
  for (const model::ParamSpec& p : table.params) {
    const std::string from = p.name == "lm_head.weight" ? "model.embed_tokens.weight" : p.name;
    const model::ParamSpec& source = tied_table.params[static_cast<std::size_t>(tied_table.find(from))];
    std::copy_n(tied_masters.begin() + source.offset_elems, p.numel(), masters.begin() + p.offset_elems);
  }
  const auto sum = fixture.gradient(fixture.spec(tied, batch), batch);
  train::Engine engine(fixture.spec(untied, batch), fixture.device(), fixture.backend());
  engine.set_masters(masters);
  engine.accumulate(batch);
  std::vector<float> parts(masters.size());
  engine.read_buffer(engine.buffers().grads, parts.data());
  const model::ParamSpec& embed = table.params[static_cast<std::size_t>(table.find("model.embed_tokens.weight"))];
  const model::ParamSpec& head = table.params[static_cast<std::size_t>(table.find("lm_head.weight"))];
  for (std::int64_t i = 0; i < embed.numel(); ++i) {
    const float want =
        parts[static_cast<std::size_t>(embed.offset_elems + i)] + parts[static_cast<std::size_t>(head.offset_elems + i)];
    ASSERT_EQ(sum.values[static_cast<std::size_t>(embed.offset_elems + i)], want) << i;
  }
}

TEST(Engine, ClippingBoundsTheUpdate) {
  EngineFixture fixture;
  const data::Batch batch = make_batch({{17, 11}}, 32, 61, 2);
  train::EngineSpec spec = fixture.spec(tiny_config(), batch);
  spec.optimizer = {
      .kind = ops::OptimizerKind::kAdamW, .beta1 = 0.0, .beta2 = 0.0, .eps = 1e8, .weight_decay = 0.0, .clip_norm = 0.01};
  train::Engine engine(spec, fixture.device(), fixture.backend());
  const std::vector<float> before = random_masters(engine.table(), 7);
  engine.set_masters(before);
  const train::StepResult result = engine.accumulate(batch);
  ASSERT_GT(result.grad_norm, 0.1);
  engine.update(1, 1e8, result.grad_norm);  // eps and lr cancel: the update is the clipped gradient
  std::vector<float> after(before.size());
  engine.read_buffer(engine.buffers().weights, after.data());
  double moved = 0.0;
  for (std::size_t i = 0; i < after.size(); ++i) moved += std::pow(static_cast<double>(after[i]) - before[i], 2);
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-4);
}

// A second step starts from a zero gradient.
TEST(Engine, GradientsAreClearedBetweenSteps) {
  EngineFixture fixture;
  const data::Batch batch = make_batch({{17, 11}}, 32, 61, 2);
  train::Engine engine(fixture.spec(tiny_config(), batch), fixture.device(), fixture.backend());
  engine.set_masters(random_masters(engine.table(), 7));
  const double first = engine.accumulate(batch).grad_norm;
  EXPECT_EQ(engine.accumulate(batch).grad_norm, first);
}

// Attention as it was asked for, noted by an implementation that takes nothing.
std::vector<ops::AttentionDesc> asked_for;
ops::Refusal note(const ops::AttentionDesc& desc, const runtime::DeviceInfo&) {
  asked_for.push_back(desc);
  return {ops::RefusalKind::kSwitchedOff, "only notes what is asked for"};
}

// Documents are promised to be uniform only where every row is one document: an implementation that believes it does
// not look at the segment table.
TEST(Engine, UniformDocumentsArePromisedOnlyWhereEveryRowIsOne) {
  EngineFixture fixture;
  ops::Backend backend = fixture.backend();
  backend.attention_forward.insert(
      backend.attention_forward.begin(),
      {.name = "note", .supports = note, .workspace_bytes = nullptr, .run = nullptr, .kind = ops::EngineKind::kNative});
  struct Case {
    std::vector<std::vector<std::int64_t>> rows;
    bool uniform;
  };
  const Case cases[] = {{{{32}, {32}}, true},    {{{16, 16}, {32}}, false}, {{{16, 16}, {16, 16}}, false},
                        {{{32}, {30}}, false},   {{{16, 16}, {}}, false},   {{{32}, {}}, false},
                        {{{31, 1}, {32}}, false}};
  const train::EngineSpec spec = fixture.spec(tiny_config(), make_batch({{32}, {32}}, 32, 61, 2));
  train::Engine engine(spec, fixture.device(), backend);
  engine.set_masters(random_masters(engine.table(), 7));
  for (const Case& c : cases) {
    asked_for.clear();
    engine.accumulate(make_batch(c.rows, 32, 61, 2));
    ASSERT_FALSE(asked_for.empty());
    for (const ops::AttentionDesc& desc : asked_for) EXPECT_EQ(desc.uniform_document_len, c.uniform ? 32 : 0) << &c - cases;
  }
}

TEST(Engine, DeterminismIsAskedOfEveryAttentionBackward) {
  EngineFixture fixture;
  ops::Backend backend = fixture.backend();
  backend.attention_backward.insert(
      backend.attention_backward.begin(),
      {.name = "note", .supports = note, .workspace_bytes = nullptr, .run = nullptr, .kind = ops::EngineKind::kNative});
  const data::Batch batch = make_batch({{16, 16}, {32}}, 32, 61, 2);
  train::EngineSpec spec = fixture.spec(tiny_config(), batch);
  for (const bool deterministic : {false, true}) {
    asked_for.clear();
    spec.deterministic = deterministic;
    train::Engine engine(spec, fixture.device(), backend);
    const std::size_t planned = asked_for.size();
    engine.set_masters(random_masters(engine.table(), 7));
    engine.accumulate(batch);
    ASSERT_GT(planned, 0u);
    ASSERT_GT(asked_for.size(), planned);
    for (const ops::AttentionDesc& desc : asked_for) EXPECT_EQ(desc.deterministic, deterministic);
  }
}

// A device with memory of its own, of which a process takes some beside the arena.
class OwnMemoryDevice : public cpu::CpuDevice {
 public:
  explicit OwnMemoryDevice(std::int64_t outside_bytes) : info_(CpuDevice::info()) {
    info_.outside_arena_bytes = outside_bytes;
  }
  const runtime::DeviceInfo& info() const override { return info_; }

 private:
  runtime::DeviceInfo info_;
};

TEST(Engine, MemoryBesideTheArenaCountsAgainstTheLimit) {
  EngineFixture fixture;
  const data::Batch batch = make_batch({{17, 11}}, 32, 61, 2);
  const train::EngineSpec spec = fixture.spec(tiny_config(), batch);
  const std::int64_t arena_bytes = train::plan_step(spec, fixture.device().info(), fixture.backend()).memory.total_bytes;
  constexpr std::int64_t kOutside = std::int64_t{100} << 20;
  OwnMemoryDevice device(kOutside);
  EXPECT_NO_THROW(train::Engine(spec, device, fixture.backend(), arena_bytes + kOutside));
  try {
    train::Engine engine(spec, device, fixture.backend(), arena_bytes + kOutside - 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_NE(std::string(error.what()).find("(100.0 MiB of them the device's context and libraries)"), std::string::npos)
        << error.what();
  }
}

TEST(Engine, PlanThatDoesNotFitIsRefusedWithAdvice) {
  EngineFixture fixture;
  const data::Batch batch = make_batch({{17, 11}}, 32, 61, 2);
  try {
    train::Engine engine(fixture.spec(tiny_config(), batch), fixture.device(), fixture.backend(), 1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_NE(std::string(error.what()).find("recompute"), std::string::npos);
  }
}

}  // namespace
}  // namespace ida::testing

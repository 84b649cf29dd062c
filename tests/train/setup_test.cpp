// Every setting of a run's configuration reaches the part of the engine that it names.
#include "train/setup.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ida::train {
namespace {

constexpr std::string_view kBase = R"(
[run]
name = "x"
[model]
preset = "tiny"
[data]
train = ["a"]
seq_len = 64
[train]
steps = 100
global_batch_tokens = 256
[precision]
recipe = "fp32"
)";

// What setup makes of a configuration, as text.
std::string resolved(const std::vector<std::string>& overrides) {
  const config::RunConfig config = config::parse_run_config(kBase, "test", overrides);
  const EngineSpec spec = engine_spec(config, resolve_model(config));
  const optim::Schedule s = schedule_of(config);
  const data::PackingOptions p = packing_of(config);
  const optim::OptimizerConfig& o = spec.optimizer;
  std::string text = fmt::format("{} {} {} {} {} {}", static_cast<int>(s.kind), s.peak_lr, s.min_lr_frac, s.warmup_steps,
                                 s.wsd_decay_frac, s.total_steps);
  text += fmt::format(" | {} {} {} {} {}", p.seq_len, static_cast<int>(p.packing), static_cast<int>(p.long_documents),
                      p.shuffle, p.seed);
  text += fmt::format(" | {} {} {} {} {} {} {} {}", static_cast<int>(o.kind), o.beta1, o.beta2, o.eps, o.weight_decay,
                      o.clip_norm, static_cast<int>(o.decay), dtype_name(o.state_dtype));
  text += fmt::format(" | {} {} {} {} {} {} {} {} {}", spec.recipe.name, static_cast<int>(spec.recompute),
                      static_cast<int>(spec.backward_scale), static_cast<int>(spec.engine_policy), spec.fallback_is_error,
                      spec.deterministic, spec.graphs, spec.model.num_hidden_layers, global_batch_rows(config));
  const checkpoint::Retention r = retention_of(config.train);
  text += fmt::format(" | {} {} {}", r.keep_last, r.keep_every, r.keep_best);
  return text + fmt::format(" | {}", memory_limit(config, {}));
}

class SetupEffect : public ::testing::TestWithParam<const char*> {};

TEST_P(SetupEffect, ChangesWhatTheEngineGets) { EXPECT_NE(resolved({}), resolved({GetParam()})) << resolved({}); }

INSTANTIATE_TEST_SUITE_P(Keys, SetupEffect,
                         ::testing::Values("run.seed=7", "model.num_hidden_layers=3", "data.seq_len=128",
                                           "data.packing=stream", "data.long_documents=drop", "data.shuffle=false",
                                           "optim.name=lion", "optim.lr=1e-2", "optim.betas=[0.5, 0.6]", "optim.eps=1e-4",
                                           "optim.weight_decay=0.3", "optim.clip_norm=2.0", "optim.schedule=cosine",
                                           "optim.warmup_steps=3", "optim.wsd_decay_fraction=0.5", "optim.min_lr_ratio=0.5",
                                           "optim.decay=all", "train.steps=50", "train.global_batch_tokens=512",
                                           "train.keep_last=1", "train.keep_every=50", "train.keep_best=2",
                                           "train.recompute=block", "precision.recipe=bf16", "precision.state=bf16",
                                           "precision.backward_scale=sum", "evidence.engine=native",
                                           "evidence.on_fallback=record", "device.memory_limit=1GiB",
                                           "device.deterministic=true", "device.graphs=false"));

TEST(Setup, TokensAreSteps) {
  std::string text(kBase);
  text.replace(text.find("steps = 100"), 11, "tokens = 2560");
  EXPECT_EQ(schedule_of(config::parse_run_config(text, "test")).total_steps, 10);
}

TEST(Setup, MicroBatchThatWasAskedForIsTaken) {
  const runtime::DeviceInfo device;
  const ops::Backend backend;
  const config::RunConfig asked =
      config::parse_run_config(kBase, "test", std::vector<std::string>{"train.micro_batch_sequences=2"});
  EXPECT_EQ(choose_micro_batch_rows(asked, engine_spec(asked, resolve_model(asked)), device, backend), 2);
}

}  // namespace
}  // namespace ida::train

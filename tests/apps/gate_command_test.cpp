// gates of a run: what a loss spike leads to. With a learning rate near 0 losses only wander, so a bound of one
// deviation is crossed soon after the 64th step.
#include <gtest/gtest.h>

#include "program.h"

namespace ida::app_test {
namespace {

constexpr const char* kConfig = R"([run]
name = "g"
[model]
hidden_size = 32
intermediate_size = 48
num_hidden_layers = 1
num_attention_heads = 2
[tokenizer]
vocab_size = 300
[data]
train = ["a.txt"]
seq_len = 32
[optim]
lr = 1e-9
[train]
steps = 90
global_batch_tokens = 64
save_every = 20
log_every = 5
[precision]
recipe = "fp32"
)";

class GateCommand : public ::testing::Test {
 protected:
  Outcome train(const std::string& action, const std::string& sigma = "1.0") {
    return run({"gates.spike_action=" + action, "gates.spike_sigma=" + sigma});
  }
  Outcome run(const std::vector<std::string>& settings) {
    space_.write("g.toml", kConfig);
    std::string text;
    for (int i = 0; i < 3000; ++i)
      text += static_cast<char>('a' + (i * i * 7 + i / 11) % 26), text += i % 5 == 0 ? " " : "";
    space_.write("a.txt", text);
    std::vector<std::string> call = {"train", "g.toml", "--threads", "1"};
    for (const std::string& setting : settings) call.insert(call.end(), {"--set", setting});
    return space_.run(call);
  }
  Workspace space_;
};

TEST_F(GateCommand, SkipGoesOnAndSaysSo) {
  const Outcome outcome = train("skip");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  int skipped = 0;
  for (const nlohmann::json& row : read_json_lines(space_ / "runs/g/metrics.jsonl")) {
    skipped += row.contains("skipped") ? 1 : 0;
    EXPECT_TRUE(row.contains("skipped") || row["step"] == 1 || row["step"].get<int>() % 5 == 0) << row;  // log_every
  }
  EXPECT_GT(skipped, 0);
}

TEST_F(GateCommand, StopEndsTheRunAtTheSpike) {
  expect_refused(train("stop"), 3, {"[gates]", "loss spike", "spike_action"});
}

TEST_F(GateCommand, RollbackIsBounded) {
  const Outcome outcome = train("rollback", "0.1");  // every second step or so
  expect_refused(outcome, 3, {"[gates]", "rollbacks did not help"});
  EXPECT_NE(outcome.err.find("rolling back"), std::string::npos);
  int last = 0;  // rows of the steps that were rolled back are gone
  for (const nlohmann::json& row : read_json_lines(space_ / "runs/g/metrics.jsonl")) {
    EXPECT_GT(row["step"].get<int>(), last);
    last = row["step"].get<int>();
  }
}

// After one enormous update every gradient overflows: those steps change no weight, and what is saved is finite.
TEST_F(GateCommand, AGradientThatIsNotFiniteReachesNoWeight) {
  const std::vector<std::string> settings = {"optim.lr=1e30", "optim.warmup_steps=0", "train.steps=4"};
  const Outcome outcome = run(settings);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = read_json_lines(space_ / "runs/g/metrics.jsonl");
  ASSERT_EQ(rows.back()["step"], 4);
  EXPECT_EQ(rows.back()["skipped"], 1) << rows.back();
  EXPECT_TRUE(rows.back().contains("non_finite") && !rows.back().contains("grad_norm")) << rows.back();
  const Outcome checked = space_.run({"verify", "checkpoint", "runs/g/checkpoints/step-4"});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.out.find("all finite"), std::string::npos) << checked.out;

  std::vector<std::string> strict = settings;
  strict.insert(strict.end(), {"gates.non_finite=stop", "run.name=h"});
  expect_refused(run(strict), 3, {"step 2: non-finite step", "gates.non_finite"});
}

}  // namespace
}  // namespace ida::app_test

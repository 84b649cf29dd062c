// bench step: a few steps on made-up rows, and what it says about them.
#include <gtest/gtest.h>

#include "program.h"

namespace ida::app_test {
namespace {

// A model small enough for a step in milliseconds.
std::vector<std::string> bench_step(std::vector<std::string> more) {
  std::vector<std::string> call = {"bench", "step", "--steps", "1", "--warmup", "1", "--threads", "1"};
  for (const char* setting :
       {"device.backend=cpu", "model.preset=tiny", "model.num_hidden_layers=1", "data.seq_len=32", "train.steps=10",
        "train.global_batch_tokens=128", "train.micro_batch_sequences=2", "precision.recipe=fp32"})
    call.insert(call.end(), {"--set", setting});
  call.insert(call.end(), more.begin(), more.end());
  return call;
}

TEST(BenchStepCommand, FiguresOfOneStep) {
  const Workspace space;
  const Outcome outcome = space.run(bench_step({"--out", "b.json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("no kernels recorded: "), std::string::npos) << outcome.out;
  const nlohmann::json figures = read_json(space / "b.json");
  for (const char* key : {"command",
                          "build",
                          "device",
                          "recipe",
                          "parameters",
                          "seq_len",
                          "micro_batch_sequences",
                          "micro_batches",
                          "documents_per_row",
                          "step_ms",
                          "median_step_ms",
                          "start_ms",
                          "tokens_per_s",
                          "gemm_tflop_per_s",
                          "arena_bytes",
                          "planned_bytes",
                          "device_bytes",
                          "losses",
                          "ops",
                          "kernels",
                          "engines",
                          "fallbacks"})
    EXPECT_TRUE(figures.contains(key)) << key;
  EXPECT_EQ(figures["micro_batches"], 2);
  EXPECT_EQ(figures["planned_bytes"], figures["arena_bytes"]);  // a processor holds nothing beside it
  EXPECT_EQ(figures["deterministic"], false);
  EXPECT_EQ(figures["micro_batch_sequences"], 2);
  ASSERT_EQ(figures["step_ms"].size(), 1u);
  EXPECT_EQ(figures["median_step_ms"], figures["step_ms"][0]);
  EXPECT_NEAR(figures["tokens_per_s"].get<double>(), 128.0 / (figures["median_step_ms"].get<double>() / 1e3), 1.0);
  ASSERT_EQ(figures["losses"].size(), 2u);  // warm-up and the timed step
  EXPECT_LT(figures["losses"][1], figures["losses"][0]);
  EXPECT_EQ(figures["kernels"], nlohmann::json::object());
  EXPECT_FALSE(exists(space / "runs"));
}

TEST(BenchStepCommand, DocumentsOfEqualLength) {
  const Workspace space;
  const Outcome outcome = space.run(bench_step({"--documents", "4", "--out", "b.json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_json(space / "b.json")["documents_per_row"], 4);
  expect_refused(space.run(bench_step({"--documents", "33"})), 2, {"33 documents", "32 tokens"});
}

TEST(BenchStepCommand, Refusals) {
  const Workspace space;
  expect_refused(space.run(bench_step({"--set", "model.preset=tinny"})), 2, {"tinny"});
  expect_refused(space.run(bench_step({"--steps", "0"})), 2, {"--steps"});
  expect_refused(space.run({"bench", "stepp"}), 2, {"stepp"});
  expect_refused(space.run({"bench", "gemm"}), 2, {"gemm"});
}

}  // namespace
}  // namespace ida::app_test

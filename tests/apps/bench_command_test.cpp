// bench step: a few steps on made-up rows, and what it says about them.
#include <gtest/gtest.h>

#include <set>

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
  expect_refused(space.run({"bench", "attention", "--tokens", "64", "--seq-len", "128"}), 2, {"128 tokens", "64"});
  expect_refused(space.run({"bench", "pack", "--dtype", "f16"}), 2, {"--dtype"});
}

// Every row is positive and consistent; returns the ops that have one.
std::set<std::string> check_op_figures(const nlohmann::json& figures, const char* work, double unit) {
  for (const char* key : {"command", "build", "device", "unit", "ceiling_of", "ceiling", "rows", "not_timed"})
    EXPECT_TRUE(figures.contains(key)) << key;
  const double ceiling = figures["ceiling"].get<double>();
  EXPECT_GT(ceiling, 0.0);
  std::set<std::string> ops;
  for (const nlohmann::json& row : figures["rows"]) {
    ops.insert(row["op"].get<std::string>());
    const double rate = row["rate"].get<double>();
    EXPECT_GT(row["ms"].get<double>(), 0.0);
    EXPECT_NEAR(rate, row[work].get<double>() / (row["ms"].get<double>() / 1e3) / unit, 1e-6 * rate) << row;
    EXPECT_NEAR(row["ratio"].get<double>(), rate / ceiling, 1e-6 * rate / ceiling) << row;
    EXPECT_FALSE(row["implementation"].get<std::string>().ends_with(".definition"));
  }
  for (const nlohmann::json& row : figures["not_timed"]) EXPECT_FALSE(row["reason"].get<std::string>().empty());
  return ops;
}

TEST(BenchPackCommand, EveryOpHasARow) {
  const Workspace space;
  for (const char* dtype : {"f32", "bf16"}) {
    const Outcome outcome = space.run({"bench", "pack", "--backend", "cpu", "--rows", "16", "--hidden", "64", "--vocab",
                                       "96,128", "--dtype", dtype, "--repeats", "1", "--threads", "1", "--out", "p.json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json figures = read_json(space / "p.json");
    std::set<std::string> want = {
        "rms_norm_forward", "rms_norm_backward",    "rms_norm_backward + residual", "rope",    "swiglu_forward",
        "swiglu_backward",  "embedding_forward",    "embedding_backward",           "convert", "cross_entropy",
        "sum_squares",      "optimizer_step adamw", "optimizer_step lion"};
    if (dtype == std::string("bf16")) {
      want.insert("dequantize");
      for (const char* direction : {"rows", "columns", "both"})
        for (const char* choice : {"", " drawn", " amax given"}) want.insert(std::string("quantize ") + direction + choice);
      want.insert({"quantize both hadamard", "quantize both hadamard drawn"});
    }
    EXPECT_EQ(check_op_figures(figures, "bytes", 1e9), want);
    EXPECT_EQ(figures["unit"], "GB/s");
    // 16 x 64 elements: x and y once each, rstd of every row.
    for (const nlohmann::json& row : figures["rows"])
      if (row["op"] == "rms_norm_forward") {
        EXPECT_EQ(row["bytes"], 2 * 16 * 64 * (dtype == std::string("f32") ? 4 : 2) + 16 * 4);
      }
  }
}

TEST(BenchGemmCommand, EveryProductOfAConfigurationOnce) {
  const Workspace space;
  const Outcome outcome = space.run({"bench",     "gemm",
                                     "--repeats", "1",
                                     "--threads", "1",
                                     "--out",     "g.json",
                                     "--set",     "device.backend=cpu",
                                     "--set",     "model.preset=tiny",
                                     "--set",     "data.seq_len=32",
                                     "--set",     "train.steps=10",
                                     "--set",     "train.global_batch_tokens=64",
                                     "--set",     "train.micro_batch_sequences=2",
                                     "--set",     "precision.recipe=fp32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json figures = read_json(space / "g.json");
  std::set<std::string> want = {"square product"};
  for (const char* module : {"qkv", "o", "gate_up", "down", "head"})
    for (const char* pass : {"fprop", "dgrad", "wgrad"}) want.insert(std::string(module) + " " + pass);
  EXPECT_EQ(check_op_figures(figures, "flop", 1e12), want);
  EXPECT_EQ(figures["unit"], "TFLOP/s");
  for (const nlohmann::json& row : figures["rows"])
    if (row["op"] == "o fprop") {
      EXPECT_EQ(row["flop"], 2.0 * 64 * 256 * 256);
    }
}

TEST(BenchAttentionCommand, CountsThePairsOfTheMask) {
  const Workspace space;
  const Outcome outcome =
      space.run({"bench",       "attention", "--backend",  "cpu", "--tokens", "64",    "--seq-len", "32",
                 "--documents", "1,4",       "--head-dim", "16",  "--window", "8",     "--dtype",   "f32",
                 "--repeats",   "1",         "--threads",  "1",   "--out",    "a.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json figures = read_json(space / "a.json");
  check_op_figures(figures, "flop", 1e12);
  // Of the first preset, 8 heads of 16: two rows of 32 tokens, whole; in four documents; whole with 8 keys a query.
  std::vector<double> forward;
  for (const nlohmann::json& row : figures["rows"])
    if (row["op"].get<std::string>().starts_with("attention_forward") && forward.size() < 3)
      forward.push_back(row["flop"].get<double>() / (4.0 * 8 * 16));
  EXPECT_EQ(forward, (std::vector<double>{2 * 32 * 33 / 2, 8 * 8 * 9 / 2, 2 * (8 * 9 / 2 + 24 * 8)}));
}

}  // namespace
}  // namespace ida::app_test

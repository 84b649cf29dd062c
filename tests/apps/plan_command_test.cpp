// plan: the figures of a run before it exists.
#include <gtest/gtest.h>

#include "program.h"

namespace ida::app_test {
namespace {

constexpr const char* kConfig =
    "[run]\nname = \"r\"\n[model]\nhidden_size = 32\nintermediate_size = 64\nnum_hidden_layers = 3\nnum_attention_heads = "
    "4\n"
    "num_key_value_heads = 2\n[tokenizer]\nvocab_size = 300\n[data]\ntrain = [\"text.txt\"]\nseq_len = 16\n"
    "[train]\nsteps = 7\nglobal_batch_tokens = 64\n[precision]\nrecipe = \"fp32\"\n";

class PlanCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    space_.write("c.toml", kConfig);
    space_.write("text.txt", "some text to plan with");
  }
  nlohmann::json plan(std::vector<std::string> more = {}) {
    std::vector<std::string> call = {"plan", "c.toml", "--out", "p.json"};
    call.insert(call.end(), more.begin(), more.end());
    const Outcome outcome = space_.run(call);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_json(space_ / "p.json");
  }
  Workspace space_;
};

TEST_F(PlanCommand, FiguresOfASmallModel) {
  const nlohmann::json figures = plan();
  EXPECT_FALSE(exists(space_ / "runs"));
  // Embedding and head 300 x 32 each; a layer: q and o 32 x 32, k and v 16 x 32, three 32 x 64 maps, two norms; one norm.
  EXPECT_EQ(figures["parameters"], 2 * 300 * 32 + 3 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 64 + 2 * 32) + 32);
  EXPECT_EQ(figures["steps"], 7);
  EXPECT_EQ(figures["tokens"], 7 * 64);
  EXPECT_EQ(figures["micro_batch_sequences"], 4);
  // 2 multiply-adds a weight of every linear map, once forward and twice backward; the embedding is a lookup.
  EXPECT_EQ(figures["gemm_flop_per_token"], 6.0 * (300 * 32 + 3 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 64)));
  std::int64_t total = 0, arena = 0;
  for (const nlohmann::json& row : figures["memory"]) {
    total += row["bytes"].get<std::int64_t>();
    const std::string name = row["name"];
    if (name != "process" && name != "data" && name != "checkpoint") arena += row["bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(figures["total_bytes"], total);
  EXPECT_EQ(figures["arena_bytes"], arena);
  EXPECT_FALSE(figures.contains("eta_s"));
  std::set<std::string> places;
  for (const nlohmann::json& site : figures["sites"])
    places.insert(site["module"].get<std::string>() + " " + site["pass"].get<std::string>());
  EXPECT_EQ(places.size(), 15u);  // qkv, o, gate_up, down, head, three passes each
}

TEST_F(PlanCommand, MemoryLimitDecidesTheMicroBatch) {
  const std::int64_t arena = plan()["arena_bytes"];
  const nlohmann::json less = plan({"--set", "device.memory_limit=\"" + std::to_string(arena - 1) + "B\""});
  EXPECT_LT(less["micro_batch_sequences"], 4);
  EXPECT_LT(less["arena_bytes"], arena);
  const Outcome none = space_.run({"plan", "c.toml", "--set", "device.memory_limit=\"64KiB\""});
  expect_refused(none, 1, {"one sequence of 16 tokens", "recompute"});
}

TEST_F(PlanCommand, AssumedDevices) {
  const nlohmann::json amx = plan({"--assume", "cpu-amx", "--set", "precision.recipe=bf16"});
  const nlohmann::json avx2 = plan({"--assume", "cpu-avx2", "--set", "precision.recipe=bf16"});
  bool refused_for_hardware = false;
  for (const nlohmann::json& site : avx2["sites"]) {
    EXPECT_EQ(site["engine"], "cpu.blocked.bf16_widened");
    for (const nlohmann::json& refusal : site["refused"]) refused_for_hardware |= refusal["engine"] == "cpu.onednn.bf16";
  }
  EXPECT_TRUE(refused_for_hardware);
  EXPECT_NE(amx["device"], avx2["device"]);
  expect_refused(space_.run({"plan", "c.toml", "--assume", "cpu-avx3"}), 2, {"cpu-avx3", "did you mean"});
  expect_refused(space_.run({"plan", "c.toml", "--world", "2"}), 3, {"one device"});
}

TEST_F(PlanCommand, BadConfigurations) {
  space_.write("bad.toml", std::string(kConfig) + "[optm]\nlr = 1\n");
  expect_refused(space_.run({"plan", "bad.toml"}), 2, {"bad.toml", "optm", "optim"});
  expect_refused(space_.run({"plan", "c.toml", "--set", "optim.lr=fast"}), 2, {"optim.lr"});
  expect_refused(space_.run({"plan", "c.toml", "--set", "train.global_batch_tokens=60"}), 2, {"60", "seq_len"});
  expect_refused(space_.run({"plan", "c.toml", "--set", "precision.recipe=nvfp4"}), 3, {"nvfp4"});
}

TEST_F(PlanCommand, AssumedCards) {
  const std::vector<std::string> cards = {"h100", "h200", "b200", "rtx5090", "rtx5070ti"};
  expect_refused(space_.run({"plan", "c.toml", "--assume", "h20"}), 2, {"h20", "unknown device", "did you mean"});
  if (!kHasCuda) {
    for (const std::string& card : cards)
      expect_refused(space_.run({"plan", "c.toml", "--assume", card}), 3,
                     {"--assume " + card, "this build has no CUDA backend", "make CUDA=1 build", "cpu-amx"});
    return;
  }
  for (const std::string& card : cards) {
    const nlohmann::json figures = plan({"--assume", card, "--set", "precision.recipe=bf16"});
    EXPECT_NE(figures["device"].get<std::string>().find("assumed"), std::string::npos);
    EXPECT_GT(figures["arena_bytes"], 0);
    EXPECT_EQ(figures["sites"].size(), 15u);
    for (const nlohmann::json& site : figures["sites"]) EXPECT_EQ(site["engine"], "cublaslt.bf16") << card;
  }
  const Outcome shown = space_.run({"plan", "c.toml", "--assume", "h200"});
  EXPECT_NE(shown.out.find("H200 assumed"), std::string::npos) << shown.out;
}

// On a machine without a GPU, whatever the build.
TEST_F(PlanCommand, CudaWithoutAGpuIsRefusedWithTheReason) {
  if (read_doctor(space_)["cuda"].get<std::string>().find("none: ") != 0) GTEST_SKIP() << "there is a GPU";
  for (const char* command : {"train", "plan"})
    expect_refused(space_.run({command, "c.toml", "--set", "device.backend=cuda"}), 3,
                   {"backend = \"cuda\"", kHasCuda ? "driver" : "this build has no CUDA backend"});
  EXPECT_EQ(space_.run({"plan", "c.toml", "--set", "device.backend=auto"}).code, 0);
}

}  // namespace
}  // namespace ida::app_test

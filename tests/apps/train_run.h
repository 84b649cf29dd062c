// A small run for tests of `train` and of what it leaves behind.
#pragma once
#include <gtest/gtest.h>

#include <map>

#include "program.h"

namespace ida::app_test {

constexpr int kSteps = 30;

inline std::string corpus_file(int seed) {
  constexpr const char* kWords[] = {"river", "stone", "cloud", "walks", "sings",  "under",
                                    "over",  "the",   "a",     "quiet", "bright", "."};
  std::string text;
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1u;
  for (int i = 0; i < 400; ++i) {
    state = state * 1664525u + 1013904223u;
    text += kWords[(state >> 16) % 12];
    text += (state >> 28) == 0 ? '\n' : ' ';
  }
  return text;
}

inline std::string config_text(const std::string& name) {
  return "[run]\nname = \"" + name +
         "\"\n[model]\nhidden_size = 32\nintermediate_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 4\n"
         "num_key_value_heads = 2\n[tokenizer]\nvocab_size = 280\n[data]\ntrain = [\"corpus\"]\nvalid = "
         "[\"held_out.txt\"]\n"
         "seq_len = 32\n[optim]\nlr = 5e-3\n[train]\nsteps = 30\nglobal_batch_tokens = 128\neval_every = 5\nsave_every = "
         "5\n"
         "sample_every = 15\nsample_prompt = \"the\"\nsample_tokens = 8\nkeep_last = 0\n[precision]\nrecipe = \"fp32\"\n";
}

class TrainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 6; ++i) space_.write("corpus/" + std::to_string(i) + ".txt", corpus_file(i));
    space_.write("held_out.txt", corpus_file(99));
  }
  std::vector<std::string> call(const std::string& name, std::vector<std::string> more = {}) {
    space_.write(name + ".toml", config_text(name));
    std::vector<std::string> words = {"train", name + ".toml", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome train(const std::string& name, const std::vector<std::string>& more = {}) { return space_.run(call(name, more)); }
  std::string run_file(const std::string& name, const std::string& file) {
    return read_all(space_ / ("runs/" + name + "/" + file));
  }

  // Step -> loss, val_loss, gradient norm and learning rate as written; throughput is left out.
  std::map<int, std::vector<std::string>> losses(const std::string& name) {
    std::map<int, std::vector<std::string>> rows;
    for (const nlohmann::json& row : read_json_lines(space_ / ("runs/" + name + "/metrics.jsonl"))) {
      const int step = row["step"];
      EXPECT_FALSE(rows.contains(step)) << "step " << step << " appears twice";
      for (const char* key : {"loss", "val_loss", "grad_norm", "lr", "tokens"})
        rows[step].push_back(row.contains(key) ? row[key].dump() : "absent");
    }
    return rows;
  }
  void expect_same_end(const std::string& name, const std::string& other) {
    for (const char* file : {"checkpoints/step-30/model.safetensors", "checkpoints/step-30/optim.safetensors"}) {
      ASSERT_FALSE(run_file(name, file).empty());
      EXPECT_TRUE(run_file(name, file) == run_file(other, file)) << file << " of " << name << " and " << other;
    }
    EXPECT_EQ(losses(name), losses(other));
  }
  Workspace space_;
};

}  // namespace ida::app_test

// import, export, verify export, eval ppl, generate on models that others trained.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "program.h"

namespace ida::app_test {
namespace {

namespace fs = std::filesystem;

// The byte of each tensor's data, by name, of a safetensors file.
std::map<std::string, std::string> tensors_of(const std::string& path) {
  const std::string file = read_all(path);
  std::uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i)
    header_bytes = header_bytes << 8 | static_cast<unsigned char>(file.at(static_cast<std::size_t>(i)));
  const nlohmann::json header = nlohmann::json::parse(file.substr(8, header_bytes));
  std::map<std::string, std::string> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] =
        entry["dtype"].get<std::string>() + entry["shape"].dump() + file.substr(8 + header_bytes + begin, end - begin);
  }
  return tensors;
}

TEST(ImportCommand, WeightsKeepEveryByte) {
  for (const char* name : {"llama_gqa_tied", "qwen3", "mistral_swa"}) {
    const Workspace space;
    const Outcome imported = space.run({"import", golden_dir(name), "in", "--out", "i.json"});
    ASSERT_EQ(imported.code, 0) << imported.err;
    const Outcome exported = space.run({"export", "in", "again", "--format", "hf"});
    ASSERT_EQ(exported.code, 0) << exported.err;
    const auto source = tensors_of(golden_dir(name) + "/model.safetensors");
    EXPECT_EQ(tensors_of(space / "in/model.safetensors"), source);
    EXPECT_EQ(read_all(space / "again/model.safetensors"), read_all(space / "in/model.safetensors"));
    EXPECT_EQ(read_all(space / "again/config.json"), read_all(space / "in/config.json"));
    EXPECT_EQ(read_json(space / "i.json")["tensors"], source.size());
    EXPECT_EQ(space.run({"verify", "export", "again", "--source", golden_dir(name)}).code, 0);
  }
}

class GoldenCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(space_ / "hf");
    for (const char* file : {"config.json", "model.safetensors"})
      fs::copy(golden_dir("llama_mha") + "/" + file, space_ / "hf");
  }
  // Replaces equally long text in a file of the model.
  void patch(const std::string& file, const std::string& from, const std::string& to) {
    std::string content = read_all(space_ / ("hf/" + file));
    ASSERT_NE(content.find(from), std::string::npos) << from;
    content.replace(content.find(from), from.size(), to);
    space_.write("hf/" + file, content);
  }
  Workspace space_;
};

TEST_F(GoldenCopy, ImportRefusesWhatItCannotVouchFor) {
  patch("model.safetensors", "model.layers.1.mlp.down_proj.weight", "model.layers.1.mlp.down_prxj.weight");
  expect_refused(space_.run({"import", "hf", "out"}), 2, {"model.layers.1.mlp.down_pr"});
  EXPECT_FALSE(exists(space_ / "out"));
}

TEST_F(GoldenCopy, ImportRefusesAnUnknownKey) {
  patch("config.json", "{", "{\n  \"qk_clip\": 3.0,");
  expect_refused(space_.run({"import", "hf", "out"}), 2, {"config.json", "qk_clip"});
}

TEST_F(GoldenCopy, ImportRefusesValuesThatAreNotFinite) {
  std::string weights = read_all(space_ / "hf/model.safetensors");
  weights.replace(weights.size() - 4, 4, std::string("\x00\x00\xC0\x7F", 4));  // f32 NaN as the last value
  space_.write("hf/model.safetensors", weights);
  expect_refused(space_.run({"import", "hf", "out"}), 4, {"nan"});
  EXPECT_EQ(space_.run({"verify", "export", "hf"}).code, 4);
}

TEST_F(GoldenCopy, TruncatedWeightsAreCorrupt) {
  const std::string weights = read_all(space_ / "hf/model.safetensors");
  space_.write("hf/model.safetensors", weights.substr(0, weights.size() - 1));
  expect_refused(space_.run({"import", "hf", "out"}), 4, {"model.safetensors"});
}

TEST_F(GoldenCopy, ExportRefusesFormatsByName) {
  expect_refused(space_.run({"export", "hf", "out", "--format", "gguf"}), 2, {"gguf", "available: hf"});
  expect_refused(space_.run({"export", "hf", "hf"}), 2, {"another folder"});
}

TEST_F(GoldenCopy, VerifyExportComparesWithTheSource) {
  ASSERT_EQ(space_.run({"export", "hf", "out"}).code, 0);
  const Outcome same = space_.run({"verify", "export", "out", "--source", "hf"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_NE(same.out.find("equal to hf"), std::string::npos) << same.out;
  std::string weights = read_all(space_ / "out/model.safetensors");
  weights[weights.size() - 4] ^= 1;  // one unit in the last place of the last value
  space_.write("out/model.safetensors", weights);
  const Outcome changed = space_.run({"verify", "export", "out", "--source", "hf"});
  EXPECT_EQ(changed.code, 4);
  EXPECT_NE(changed.out.find("differs from the source"), std::string::npos) << changed.out;
}

class Stories : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = shared_data();
    if (!shared) GTEST_SKIP() << "shared data is not here";
    root_ = *shared;
    model_ = root_ + "/models/stories260K/hf";
    golden_ = read_json(root_ + "/models/stories260K/golden.json");
    text_ = root_ + "/models/stories260K/" + golden_["text_file"].get<std::string>();
  }
  Workspace space_;
  std::string root_, model_, text_;
  nlohmann::json golden_;
};

TEST_F(Stories, PerplexityOfTheGoldenWindows) {
  const Outcome outcome =
      space_.run({"eval", "ppl", "--model", model_, "--text", text_, "--window", "511", "--out", "p.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json figures = read_json(space_ / "p.json");
  EXPECT_NEAR(figures["mean_nll"], golden_["mean_nll"].get<double>(), 1e-4);
  EXPECT_EQ(figures["windows"], golden_["windows"]);
  EXPECT_EQ(figures["scored_tokens"], golden_["tokens_scored"]);
  EXPECT_EQ(figures["tokens"], golden_["text_tokens_without_bos"]);
  EXPECT_NEAR(figures["perplexity"], std::exp(figures["mean_nll"].get<double>()), 1e-9);
  ASSERT_EQ(figures["files"].size(), 1u);
  EXPECT_EQ(figures["files"][0]["mean_nll"], figures["mean_nll"]);
}

TEST_F(Stories, SeveralFilesAreWeightedByTokens) {
  space_.write("a.txt", "Once upon a time there was a little girl named Lily. She loved to play outside in the park.");
  space_.write("b.txt", read_all(text_));
  const Outcome outcome =
      space_.run({"eval", "ppl", "--model", model_, "--text", "a.txt", "b.txt", "--window", "16", "--out", "p.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json figures = read_json(space_ / "p.json");
  double nll = 0.0, tokens = 0.0;
  for (const nlohmann::json& file : figures["files"]) {
    nll += file["mean_nll"].get<double>() * file["scored_tokens"].get<double>();
    tokens += file["scored_tokens"].get<double>();
  }
  EXPECT_NEAR(figures["mean_nll"], nll / tokens, 1e-12);
}

TEST_F(Stories, WindowsThatCannotBe) {
  space_.write("a.txt", "Once upon a time there was a little girl.");
  const Outcome shortened = space_.run({"eval", "ppl", "--model", model_, "--text", "a.txt", "--out", "p.json"});
  EXPECT_EQ(shortened.code, 0) << shortened.err;
  EXPECT_NE(shortened.err.find("window shortened"), std::string::npos) << shortened.err;
  EXPECT_EQ(read_json(space_ / "p.json")["windows"], 1);
  expect_refused(space_.run({"eval", "ppl", "--model", model_, "--text", "a.txt", "--window", "400"}), 2, {"a.txt", "400"});
  const Outcome partly =
      space_.run({"eval", "ppl", "--model", model_, "--text", "a.txt", text_, "--window", "400", "--out", "p.json"});
  EXPECT_EQ(partly.code, 0) << partly.err;
  EXPECT_NE(partly.err.find("a.txt: fewer than one window"), std::string::npos) << partly.err;
  EXPECT_EQ(read_json(space_ / "p.json")["skipped"], nlohmann::json::array({"a.txt"}));
  EXPECT_EQ(read_json(space_ / "p.json")["files"].size(), 1u);
  expect_refused(space_.run({"eval", "ppl", "--model", model_, "--text", text_, "--window", "512"}), 2,
                 {"512 positions", "511"});
}

TEST_F(Stories, GreedyIdsFromBos) {
  const std::vector<int> want = golden_["greedy_ids_from_bos"];
  const Outcome outcome = space_.run(
      {"generate", "--model", model_, "--prompt", "", "--max-new-tokens", std::to_string(want.size()), "--out", "g.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json sample = read_json(space_ / "g.json")["samples"][0];
  EXPECT_EQ(sample["ids"].get<std::vector<int>>(), want);
  EXPECT_EQ(sample["prompt_ids"], nlohmann::json({1}));
}

TEST_F(Stories, GenerationDetails) {
  const std::string once = "Once upon a time";
  const Outcome both = space_.run({"generate", "--model", model_, "--prompt", once, "--prompt", "Lily {} [a,b]",
                                   "--max-new-tokens", "12", "--out", "g.json"});
  ASSERT_EQ(both.code, 0) << both.err;
  const nlohmann::json samples = read_json(space_ / "g.json")["samples"];
  EXPECT_EQ(samples[1]["prompt"], "Lily {} [a,b]");
  EXPECT_EQ(samples[0]["prompt_ids"][0], 1);
  EXPECT_NE(samples[0]["prompt_ids"][1], 1) << "BOS twice";
  // A batch changes nothing for its members.
  const Outcome alone =
      space_.run({"generate", "--model", model_, "--prompt", once, "--max-new-tokens", "12", "--out", "h.json"});
  EXPECT_EQ(read_json(space_ / "h.json")["samples"][0], samples[0]);
  EXPECT_EQ(alone.out, once + samples[0]["text"].get<std::string>() + "\n");
  // The stop text is cut off.
  const std::string text = samples[0]["text"];
  const std::string stop = text.substr(text.size() / 2, 3);
  space_.run(
      {"generate", "--model", model_, "--prompt", once, "--max-new-tokens", "12", "--stop", stop, "--out", "s.json"});
  const std::string cut = read_json(space_ / "s.json")["samples"][0]["text"];
  EXPECT_EQ(cut.find(stop), std::string::npos);
  EXPECT_EQ(text.find(cut), 0u);
  // Positions end at 512, BOS and prompt included.
  space_.run(
      {"generate", "--model", model_, "--prompt", "", "--max-new-tokens", "2000", "--temperature", "1", "--out", "l.json"});
  EXPECT_LE(read_json(space_ / "l.json")["samples"][0]["ids"].size(), 511u);
}

TEST_F(Stories, SeedsDecideSamples) {
  const auto sample = [&](const char* seed) {
    const Outcome outcome = space_.run({"generate", "--model", model_, "--prompt", "Once", "--max-new-tokens", "20",
                                        "--temperature", "1", "--top-k", "50", "--top-p", "0.95", "--seed", seed});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(sample("1"), sample("1"));
  EXPECT_NE(sample("1"), sample("2"));
}

TEST_F(Stories, ThreadsChangeNothing) {
  for (const char* dtype : {"f32", "bf16"}) {
    std::vector<std::string> figures;
    for (const char* threads : {"1", "2"}) {
      const Outcome outcome = space_.run({"eval", "ppl", "--model", model_, "--text", text_, "--window", "100", "--dtype",
                                          dtype, "--threads", threads, "--out", "p.json"});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      figures.push_back(outcome.out + read_all(space_ / "p.json"));
    }
    EXPECT_EQ(figures[0], figures[1]) << dtype;
  }
}

TEST_F(Stories, ImportKeepsTheTokenizer) {
  ASSERT_EQ(space_.run({"import", model_, "in"}).code, 0);
  EXPECT_EQ(tensors_of(space_ / "in/model.safetensors"), tensors_of(model_ + "/model.safetensors"));
  EXPECT_EQ(read_all(space_ / "in/tokenizer.json"), read_all(model_ + "/tokenizer.json"));
  const auto evaluate = [&](const std::string& model) {
    return space_.run({"eval", "ppl", "--model", model, "--text", text_, "--window", "511"}).out;
  };
  EXPECT_EQ(evaluate("in"), evaluate(model_));
}

}  // namespace
}  // namespace ida::app_test

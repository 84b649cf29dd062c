// The tokenizers of the shared data against their golden ids; skipped where the data is absent.
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "support.h"

namespace ida::text {
namespace {

class GoldenIds : public testing::TestWithParam<const char*> {};

TEST_P(GoldenIds, AreReproduced) {
  const std::filesystem::path folder = shared_path(std::string("data/tokenizers/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "no shared data";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const nlohmann::json golden = nlohmann::json::parse(read_file((folder / "golden.json").string()));
  for (const nlohmann::json& item : golden["cases"]) {
    const std::string text = item["text"];
    EXPECT_EQ(tokenizer.encode(text), item["ids"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer.decode(item["ids"].get<Ids>()), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, GoldenIds, testing::Values("smollm2", "gpt2", "phi-2", "llama2"));

struct VectorCase {
  const char* vectors;
  const char* tokenizer;
};

class LlamaCppVectors : public testing::TestWithParam<VectorCase> {};

TEST_P(LlamaCppVectors, AreReproduced) {
  const std::filesystem::path root = shared_path("data/tokenizers");
  if (root.empty()) GTEST_SKIP() << "no shared data";
  const Tokenizer tokenizer = Tokenizer::load(root / GetParam().tokenizer);
  const std::string base = (root / "llamacpp_vectors" / GetParam().vectors).string();
  std::string texts = read_file(base + ".inp");
  std::istringstream lines(read_file(base + ".out"));
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::size_t end = std::min(texts.find(kSeparator), texts.size());
    Ids expected;
    std::istringstream ids(line);
    for (std::int32_t id; ids >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer.encode(texts.substr(0, end)), expected) << texts.substr(0, end);
    texts.erase(0, std::min(end + kSeparator.size(), texts.size()));
  }
  EXPECT_GE(count, 46);
}

INSTANTIATE_TEST_SUITE_P(Shared, LlamaCppVectors,
                         testing::Values(VectorCase{"gpt-2", "gpt2"}, VectorCase{"llama-spm", "llama2"},
                                         VectorCase{"llama-bpe", "llama3_tiktoken"}));

TEST(SharedTokenizers, TorchtitanTestVocabularyRoundTrips) {
  const std::filesystem::path folder = shared_path("data/tokenizers/torchtitan_test");
  if (folder.empty()) GTEST_SKIP() << "no shared data";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer.vocab_size(), 2020);
  EXPECT_EQ(tokenizer.bos_id(), 2002);
  EXPECT_EQ(tokenizer.eos_id(), 2003);
  for (const std::string text : {"Hello world, 1984!\n\tnext  line", "<|im_start|>user\nHi<|im_end|>", "caf\xC3\xA9"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.encode("<|im_start|>"), (Ids{2009}));  // added by tokenizer_config.json
}

TEST(SharedTokenizers, Stories260kGivesItsGoldenIds) {
  const std::filesystem::path folder = shared_path("data/models/stories260K");
  if (folder.empty()) GTEST_SKIP() << "no shared data";
  const Tokenizer tokenizer = Tokenizer::load(folder / "hf");
  EXPECT_TRUE(tokenizer.adds_bos());
  const nlohmann::json golden = nlohmann::json::parse(read_file((folder / "golden.json").string()));
  Ids ids = tokenizer.encode(read_file(shared_path("data/text/tinystories_eval12k.txt").string()), true);
  EXPECT_EQ(ids.size(), golden["text_tokens_without_bos"].get<std::size_t>() + 1);
  ids.resize(64);
  EXPECT_EQ(ids, golden["first_64_token_ids"].get<Ids>());
}

TEST(SharedTokenizers, WholeCorporaComeBack) {
  const std::filesystem::path root = shared_path("data");
  if (root.empty()) GTEST_SKIP() << "no shared data";
  for (const char* name : {"smollm2", "gpt2", "phi-2", "llama2", "llama3_tiktoken"}) {
    const Tokenizer tokenizer = Tokenizer::load(root / "tokenizers" / name);
    for (const char* file : {"tinyshakespeare.txt", "wiki_00.txt"}) {
      const std::string text = read_file((root / "text" / file).string());
      EXPECT_TRUE(tokenizer.decode(tokenizer.encode(text)) == text) << name << " " << file;
    }
  }
}

}  // namespace
}  // namespace ida::text

#include <gtest/gtest.h>

#include "base/file.h"
#include "support.h"

namespace ida::text {
namespace {

nlohmann::json special_piece(const char* token) { return {{"SpecialToken", {{"id", token}, {"type_id", 0}}}}; }

nlohmann::json template_of(const std::vector<nlohmann::json>& single) {
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", nlohmann::json::array()},
          {"special_tokens",
           {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}},
            {"</s>", {{"id", "</s>"}, {"ids", {2}}, {"tokens", {"</s>"}}}}}}};
}

const nlohmann::json kSequenceA = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};

nlohmann::json small() {
  nlohmann::json json = bpe_json({"a", "<s>", "</s>", "<pad>", "<x>"}, {});
  for (const char* name : {"<s>", "</s>", "<pad>", "<x>"}) {
    nlohmann::json token = added_token(json["model"]["vocab"][name], name);
    token["special"] = true;
    json["added_tokens"].push_back(token);
  }
  return json;
}

Tokenizer with_config(const nlohmann::json& json, const nlohmann::json& config) {
  return Tokenizer::from_json(json.dump(), config.dump(), "test");
}

TEST(SpecialTokens, TheTemplateAddsThemOnlyWhenAsked) {
  nlohmann::json json = small();
  json["post_processor"] = template_of({special_piece("<s>"), kSequenceA, special_piece("</s>")});
  const Tokenizer tokenizer = make_tokenizer(json);
  EXPECT_EQ(tokenizer.encode("a"), (Ids{0}));
  EXPECT_EQ(tokenizer.encode("a", true), (Ids{1, 0, 2}));
  EXPECT_EQ(tokenizer.encode("", true), (Ids{1, 2}));
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_TRUE(tokenizer.adds_eos());
  json["post_processor"] = {{"type", "Sequence"},
                            {"processors", {{{"type", "ByteLevel"}, {"trim_offsets", false}}, json["post_processor"]}}};
  EXPECT_EQ(make_tokenizer(json).encode("a", true), (Ids{1, 0, 2}));
}

TEST(SpecialTokens, ATemplateAndTheFlagTogetherGiveOneBos) {
  nlohmann::json json = small();
  json["post_processor"] = template_of({special_piece("<s>"), kSequenceA});
  for (const char* name : {"LlamaTokenizerFast", "PreTrainedTokenizerFast"}) {
    const Tokenizer tokenizer =
        with_config(json, {{"add_bos_token", true}, {"bos_token", "<s>"}, {"tokenizer_class", name}});
    EXPECT_EQ(tokenizer.encode("a", true), (Ids{1, 0})) << name;
  }
}

TEST(SpecialTokens, FlagsAddWhereNoTemplateDoes) {
  const Tokenizer tokenizer =
      with_config(small(), {{"add_bos_token", true}, {"add_eos_token", true}, {"bos_token", {{"content", "<x>"}}}});
  EXPECT_EQ(tokenizer.encode("a", true), (Ids{4, 0, 2}));
  EXPECT_EQ(tokenizer.bos_id(), 4);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_FALSE(with_config(small(), {{"add_bos_token", false}}).adds_bos());
  EXPECT_FALSE(make_tokenizer(small()).adds_bos());
}

TEST(SpecialTokens, LlamaClassesFollowTheFlagsOverTheTemplate) {
  nlohmann::json json = small();
  json["post_processor"] = template_of({special_piece("<s>"), kSequenceA});
  const nlohmann::json off = {{"add_bos_token", false}, {"tokenizer_class", "LlamaTokenizer"}};
  EXPECT_EQ(with_config(json, off).encode("a", true), (Ids{0}));
  const nlohmann::json other = {{"add_bos_token", false}, {"tokenizer_class", "PreTrainedTokenizerFast"}};
  EXPECT_EQ(with_config(json, other).encode("a", true), (Ids{1, 0}));
}

TEST(SpecialTokens, NamesComeFromTheConfigThenFromCustom) {
  const Tokenizer plain = make_tokenizer(small());
  EXPECT_EQ(plain.bos_id(), 1);
  EXPECT_EQ(plain.eos_id(), 2);
  EXPECT_EQ(plain.pad_id(), 3);
  const Tokenizer named = with_config(small(), {{"eos_token", "<x>"}, {"pad_token", "</s>"}});
  EXPECT_EQ(named.eos_id(), 4);
  EXPECT_EQ(named.pad_id(), 2);
  EXPECT_EQ(make_tokenizer(bpe_json({"a"}, {})).eos_id(), std::nullopt);
  expect_error(ExitCode::kCorrupt, "eos_token", [] { with_config(small(), {{"eos_token", "<nowhere>"}}); });
  expect_error(ExitCode::kCorrupt, "bos_token", [] { with_config(small(), {{"bos_token", 5}}); });
}

TEST(SpecialTokens, TheConfigBringsFurtherAddedTokens) {
  const nlohmann::json config = {
      {"added_tokens_decoder", {{"9", {{"content", "<new>"}, {"special", true}}}, {"1", {{"content", "<s>"}}}}}};
  const Tokenizer tokenizer = with_config(small(), config);
  EXPECT_EQ(tokenizer.encode("a<new><s>"), (Ids{0, 9, 1}));
  EXPECT_EQ(tokenizer.vocab_size(), 10);
  EXPECT_TRUE(tokenizer.is_special(9));
  expect_error(ExitCode::kCorrupt, "token id as key", [] {
    with_config(small(), {{"added_tokens_decoder", {{"9x", {{"content", "<new>"}}}}}});
  });
  expect_error(ExitCode::kCorrupt, "in the vocabulary", [] {
    with_config(small(), {{"added_tokens_decoder", {{"0", {{"content", "<new>"}}}}}});
  });
}

TEST(SpecialTokens, RobertaPutsTwoAround) {
  nlohmann::json json = small();
  json["post_processor"] = {{"type", "RobertaProcessing"},
                            {"sep", {"</s>", 2}},
                            {"cls", {"<s>", 1}},
                            {"trim_offsets", true},
                            {"add_prefix_space", false}};
  EXPECT_EQ(make_tokenizer(json).encode("a", true), (Ids{1, 0, 2}));
}

TEST(SpecialTokens, TemplatesThatMeanSomethingElseAreRefused) {
  nlohmann::json json = small();
  json["post_processor"] = template_of({special_piece("<s>"), kSequenceA, kSequenceA});
  expect_error(ExitCode::kUsage, "not one sequence A", [&] { make_tokenizer(json); });
  json["post_processor"] = template_of({special_piece("<s>")});
  expect_error(ExitCode::kCorrupt, "Sequence A", [&] { make_tokenizer(json); });
  json["post_processor"] = template_of({special_piece("<lost>"), kSequenceA});
  expect_error(ExitCode::kCorrupt, "<lost>", [&] { make_tokenizer(json); });
  json["post_processor"] = template_of({special_piece("<s>"), kSequenceA});
  json["post_processor"]["special_tokens"]["<s>"]["ids"] = {77};
  expect_error(ExitCode::kCorrupt, "id 77", [&] { make_tokenizer(json); });
}

TEST(Saving, KeepsTheFilesByteForByte) {
  const std::string json = "\n" + small().dump(3) + "\n\n";
  const std::string config = "{ \"add_bos_token\" : true,\n \"bos_token\": \"<s>\", \"anything\": [1] }";
  const Tokenizer tokenizer = Tokenizer::from_json(json, config, "test");
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "ida_text_saving";
  std::filesystem::create_directories(folder);
  tokenizer.save(folder);
  EXPECT_EQ(read_file((folder / "tokenizer.json").string()), json);
  EXPECT_EQ(read_file((folder / "tokenizer_config.json").string()), config);
  const Tokenizer again = Tokenizer::load(folder);
  EXPECT_TRUE(again.adds_bos());
  EXPECT_EQ(again.content_hash(), tokenizer.content_hash());
  EXPECT_EQ(Tokenizer::load(folder / "tokenizer.json").content_hash(), tokenizer.content_hash());
  std::filesystem::remove_all(folder);
  expect_error(ExitCode::kUsage, "no such file", [&] { Tokenizer::load(folder); });
}

TEST(Saving, AMadeUpConfigSaysWhatWasResolved) {
  const Tokenizer tokenizer = make_tokenizer(small());
  const Tokenizer again = Tokenizer::from_json(tokenizer.to_json(), tokenizer.config_json(), "again");
  EXPECT_EQ(again.content_hash(), tokenizer.content_hash());
  EXPECT_EQ(nlohmann::json::parse(tokenizer.config_json())["eos_token"], "</s>");
}

TEST(ContentHash, SeesWhatChangesIdsAndNothingElse) {
  const std::string hash = make_tokenizer(small()).content_hash();
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(Tokenizer::from_json(small().dump(4)).content_hash(), hash);
  nlohmann::json json = small();
  json["truncation"] = {{"max_length", 50}};
  json["padding"] = {{"strategy", "BatchLongest"}};
  EXPECT_EQ(make_tokenizer(json).content_hash(), hash);
  EXPECT_EQ(make_tokenizer(json).encode(std::string(100, 'a')).size(), 100u);  // and neither has an effect
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_NE(make_tokenizer(json).content_hash(), hash);
  EXPECT_NE(with_config(small(), {{"add_bos_token", true}}).content_hash(), hash);
  EXPECT_NE(with_config(small(), {{"eos_token", "<x>"}}).content_hash(), hash);
}

}  // namespace
}  // namespace ida::text

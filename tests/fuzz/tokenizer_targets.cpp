// Tokenizer files, and texts for tokenizers of every kind.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "fuzz/support.h"
#include "text/bpe_trainer.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"
#include "text/word_patterns.h"

namespace ida::fuzz {
namespace {

using Json = nlohmann::json;
using text::Tokenizer;

constexpr std::string_view kText = "Hello  w\xC3\xB6rld, it's 12\xC2\xBD <s> \xF0\x9F\x98\x80\n\t\xFF\xE2\x96\x81 a";

// Ids are in range and have a token; the same text gives the same ids, cached or not; decoding takes any of them. Gives
// back what they decode to.
std::string use_tokenizer(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text, true);
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
    require(tokenizer.token_of(id).has_value(), "an id without a token");
  }
  require(tokenizer.encode(text, true) == ids, "a text was encoded in two ways");
  tokenizer.decode(ids, true);
  return tokenizer.decode(ids);
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json added(int id, const char* content, bool lstrip, bool rstrip, bool single_word, bool normalized) {
  return {{"id", id},
          {"content", content},
          {"lstrip", lstrip},
          {"rstrip", rstrip},
          {"single_word", single_word},
          {"normalized", normalized},
          {"special", id % 2 == 0}};
}

// Tokens with ids in order; merges that make the longer ones.
Json bpe(const std::vector<std::string>& tokens, const Json& merges) {
  Json vocab = Json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
  return {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
}

Json small_byte_level() {
  Json json = {{"version", "1.0"},
               {"model", bpe({"H", "e", "l", "o", "\u0120", "w", "he", "ll", "llo", "1", "2"},
                             Json::array({"l l", Json::array({"ll", "o"})}))}};
  json["pre_tokenizer"] = byte_level(true);
  json["decoder"] = byte_level(true);
  json["added_tokens"] =
      Json::array({added(11, "<s>", true, false, false, false), added(12, "it", false, true, true, true)});
  return json;
}

Json sentencepiece_style() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "l", "o", "lo", "\u2581l", "<0xFF>", "<0x0A>"};
  Json json = {
      {"version", "1.0"},
      {"model", bpe(tokens, Json::array({"l o", "\u2581 l"}))},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", "\u2581"}},
                                     {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}})}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders", Json::array({{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                                  {{"type", "ByteFallback"}},
                                  {{"type", "Fuse"}},
                                  {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}})}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         Json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
        {"pair", Json::array()},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}}};
  json["model"]["unk_token"] = "<unk>";
  json["model"]["byte_fallback"] = true;
  json["model"]["fuse_unk"] = true;
  json["added_tokens"] =
      Json::array({added(0, "<unk>", false, false, false, false), added(1, "<s>", false, false, false, true)});
  return json;
}

Json split_by_pattern() {
  Json json = small_byte_level();
  json["normalizer"] = {{"type", "NFC"}};
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", Json::array({{{"type", "Split"},
                                                           {"pattern", {{"Regex", text::kLlama3Pattern}}},
                                                           {"behavior", "Isolated"},
                                                           {"invert", false}},
                                                          byte_level(false)})}};
  json["model"]["ignore_merges"] = true;
  return json;
}

Json metaspace_and_digits() {
  Json json = sentencepiece_style();
  json["normalizer"] = {{"type", "Lowercase"}};
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", Json::array({{{"type", "Digits"}, {"individual_digits", true}},
                                     {{"type", "Punctuation"}, {"behavior", "MergedWithNext"}},
                                     {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}}})}};
  return json;
}

Tokenizer trained(text::WordPattern pattern) {
  const std::vector<std::string_view> corpus = {
      "the cat and the hat, 1984 cats' hats;  the theatre\n\nthen \xC3\xA4 \xC3\xA4\xC3\xB6"};
  text::BpeTrainerOptions options;
  options.vocab_size = 300;
  options.pattern = pattern;
  return text::train_byte_level_bpe(corpus, options);
}

struct Reader {
  Tokenizer tokenizer;
  bool exact;  // decode(encode(x)) == x for every x
};

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {{trained(text::WordPattern::kGpt2), true},
                                          {trained(text::WordPattern::kLlama3), true},
                                          {Tokenizer::from_json(small_byte_level().dump()), false},
                                          {Tokenizer::from_json(sentencepiece_style().dump()), false},
                                          {Tokenizer::from_json(split_by_pattern().dump()), false},
                                          {Tokenizer::from_json(metaspace_and_digits().dump()), false}};
  return all;
}

unsigned byte_sum(std::string_view bytes) {
  unsigned sum = 0;
  for (const char c : bytes) sum += static_cast<unsigned char>(c);
  return sum;
}

}  // namespace

// A tokenizer.json, NUL, a tokenizer_config.json (may be empty), NUL, a text.
void run_tokenizer_json(Input input) {
  const std::vector<std::string_view> parts = split_at_nul(text_of(input), 3);
  accepted({ExitCode::kUsage, ExitCode::kCorrupt, ExitCode::kRuntime}, [&] {
    const Tokenizer tokenizer = Tokenizer::from_json(parts[0], parts[1], "tokenizer.json");
    use_tokenizer(tokenizer, kText);
    use_tokenizer(tokenizer, parts[2]);
  });
}

std::vector<std::string> tokenizer_json_seeds() {
  const std::string nul(1, '\0');
  const Json config = {{"bos_token", "<s>"},
                       {"eos_token", {{"content", "</s>"}}},
                       {"add_bos_token", true},
                       {"added_tokens_decoder", {{"13", {{"content", "<x>"}, {"special", true}}}}}};
  return {small_byte_level().dump() + nul + nul + "Hello",
          sentencepiece_style().dump() + nul + config.dump() + nul + "lo l\xFF\n",
          split_by_pattern().dump() + nul + nul + "e\xCC\x81 12345",
          metaspace_and_digits().dump() + nul + R"({"add_eos_token":false})" + nul + "a, b 12"};
}

// A byte that chooses a tokenizer, then a text.
void run_tokenizer_text(Input input) {
  if (input.empty()) return;
  const Reader& reader = readers()[std::to_integer<std::size_t>(input[0]) % readers().size()];
  const std::string_view text = text_of(input).substr(1);
  const std::string decoded = use_tokenizer(reader.tokenizer, text);
  if (reader.exact) require(decoded == text, "a text changed");
}

std::vector<std::string> tokenizer_text_seeds() {
  std::vector<std::string> inputs;
  for (char choice = '0'; choice < '6'; ++choice) {
    inputs.push_back(choice + std::string(kText));
    inputs.push_back(choice + std::string(70, 'l') + std::string(70, ' ') + "the theatre's 12345 <|endoftext|>");
  }
  return inputs;
}

// A byte, then the bytes of a rank file. The 256 special tokens that belong to such a file cost a millisecond: every
// input is parsed, and one in 16, what sums up to a multiple of 16, becomes a tokenizer that is used.
void run_rank_file(Input input) {
  if (input.empty()) return;
  const std::string_view file = text_of(input).substr(1);
  accepted({ExitCode::kUsage, ExitCode::kCorrupt, ExitCode::kRuntime}, [&] {
    text::read_rank_file(file, "tokenizer.model");
    if (byte_sum(text_of(input)) % 16 != 0) return;
    const std::string json = text::tokenizer_json_of_ranks(file, "tokenizer.model");
    use_tokenizer(Tokenizer::from_json(json, {}, "tokenizer.model"), kText);
  });
}

std::vector<std::string> rank_file_seeds() {
  std::vector<std::string> seeds = {"SA== 0\nZQ== 1\nbA== 2\nbw== 3\nbGw= 4\nbGxv 5\n",
                                    "bGxv 9\r\nbGw= 7\r\nbA== 1\r\nbw== 0\r\n", "/w== 0\n"};
  for (std::string& seed : seeds) seed.insert(seed.begin(), static_cast<char>(64 - byte_sum(seed) % 64));
  return seeds;
}

}  // namespace ida::fuzz

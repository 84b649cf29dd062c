#include "text/bpe_trainer.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/pair_merger.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"
#include "text/vocabulary.h"
#include "text/word_patterns.h"

namespace ida::text {
namespace {

constexpr std::int64_t kProgressEvery = 64;

nlohmann::json pre_tokenizer_json(WordPattern pattern) {
  const bool gpt2 = pattern == WordPattern::kGpt2;
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", gpt2}};
  if (gpt2) return byte_level;
  const std::string_view regex = pattern == WordPattern::kLlama3 ? kLlama3Pattern : kQwen2Pattern;
  const nlohmann::json split = {
      {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({split, byte_level})}};
}

nlohmann::json normalizer_json(WordPattern pattern) {
  return pattern == WordPattern::kQwen2 ? nlohmann::json{{"type", "NFC"}} : nlohmann::json();
}

class Trainer {
 public:
  explicit Trainer(const BpeTrainerOptions& options) : options_(options) {
    check_options();
    for (const std::string& token : options.special_tokens) add_token(token);
    // The characters of the byte alphabet in the order of their code points.
    for (char32_t code = 0; static_cast<std::int64_t>(tokens_.size()) < num_fixed(); ++code) {
      if (char_to_byte(code) >= 0) add_token(spelled(code));
    }
    for (int byte = 0; byte < 256; ++byte) {
      byte_ids_[static_cast<std::size_t>(byte)] =
          ids_.find(spelled(byte_to_char(static_cast<unsigned char>(byte))))->second;
    }
  }

  void count_words(std::span<const std::string_view> documents) {
    const Normalizer normalizer(normalizer_json(options_.pattern), "trainer");
    const PreTokenizer pre_tokenizer(pre_tokenizer_json(options_.pattern), "trainer");
    StringMap<std::int64_t> counts;
    const auto count = [&](std::string_view word) {
      const auto it = counts.find(word);
      if (it != counts.end()) {
        ++it->second;
      } else {
        counts.emplace(word, 1);
      }
    };
    for (std::size_t i = 0; i < documents.size(); ++i) {
      if (normalizer.empty()) {
        pre_tokenizer.split({documents[i], true}, count);
      } else {
        pre_tokenizer.split({normalizer.apply(documents[i]), true}, count);
      }
      report("words", static_cast<std::int64_t>(i + 1), static_cast<std::int64_t>(documents.size()));
    }
    std::vector<std::int32_t> symbols;
    for (const auto& [word, times] : counts) {
      symbols.clear();
      for (const char c : word) symbols.push_back(byte_ids_[static_cast<unsigned char>(c)]);
      merger_.add_word(symbols, times);
    }
    merger_.count_pairs();
  }

  void make_merges() {
    while (static_cast<std::int64_t>(tokens_.size()) < options_.vocab_size) {
      std::optional<PairMerger::Best> best = merger_.pop();
      if (!best || best->count < options_.min_frequency) break;
      last_merge_[key_of(best->pair)] = merges_.size();
      merges_.push_back(best->pair);
      const std::int32_t result = add_token(tokens_[static_cast<std::size_t>(best->pair.left)] +
                                            tokens_[static_cast<std::size_t>(best->pair.right)]);
      merger_.merge(*best, result);
      report("merges", static_cast<std::int64_t>(tokens_.size()), options_.vocab_size);
    }
  }

  std::string tokenizer_json() const {
    nlohmann::json added = nlohmann::json::array();
    for (const std::string& token : options_.special_tokens) {
      added.push_back({{"id", ids_.find(token)->second},
                       {"content", token},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    }
    nlohmann::json vocab = nlohmann::json::object();
    for (std::size_t id = 0; id < tokens_.size(); ++id) vocab[tokens_[id]] = id;
    nlohmann::json merges = nlohmann::json::array();
    for (std::size_t i = 0; i < merges_.size(); ++i) {
      const PairMerger::Pair pair = merges_[i];
      if (last_merge_.at(key_of(pair)) != i) continue;  // made again later
      merges.push_back({tokens_[static_cast<std::size_t>(pair.left)], tokens_[static_cast<std::size_t>(pair.right)]});
    }
    const nlohmann::json json = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", std::move(added)},
        {"normalizer", normalizer_json(options_.pattern)},
        {"pre_tokenizer", pre_tokenizer_json(options_.pattern)},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
        {"model",
         {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}}}};
    return json.dump(2) + "\n";
  }

 private:
  static std::string spelled(char32_t code) {
    std::string token;
    append_utf8(token, code);
    return token;
  }

  static std::uint64_t key_of(PairMerger::Pair pair) {
    return std::uint64_t{static_cast<std::uint32_t>(pair.left)} << 32 | static_cast<std::uint32_t>(pair.right);
  }

  std::int64_t num_fixed() const { return static_cast<std::int64_t>(options_.special_tokens.size()) + 256; }

  void check_options() const {
    std::unordered_set<std::string> seen;
    for (const std::string& token : options_.special_tokens) {
      if (!is_valid_utf8(token))
        fail_usage("tokenizer training: special token `{}` is not UTF-8", printable_excerpt(token));
      const std::optional<std::string> bytes = alphabet_to_bytes(token);
      if (token.empty() || (bytes && bytes->size() == 1) || !seen.insert(token).second) {
        fail_usage("tokenizer training: special token `{}` is empty, one byte of the alphabet, or given twice", token);
      }
    }
    if (options_.vocab_size < num_fixed() || options_.vocab_size > kMaxTokenId) {
      fail_usage("tokenizer training: vocab_size is {}, expected {} ({} special tokens and 256 bytes) to {}",
                 options_.vocab_size, num_fixed(), options_.special_tokens.size(), kMaxTokenId);
    }
    if (options_.min_frequency < 0)
      fail_usage("tokenizer training: min_frequency is {}, expected 0 or more", options_.min_frequency);
  }

  // The id of `token`, which is new unless two pairs spell the same.
  std::int32_t add_token(const std::string& token) {
    const auto [it, is_new] = ids_.try_emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return it->second;
  }

  void report(std::string_view stage, std::int64_t done, std::int64_t total) const {
    if (options_.progress && (done % kProgressEvery == 0 || done == total)) options_.progress(stage, done, total);
  }

  const BpeTrainerOptions& options_;
  std::vector<std::string> tokens_;
  StringMap<std::int32_t> ids_;
  std::array<std::int32_t, 256> byte_ids_{};
  PairMerger merger_;
  // A pair can merge twice when two pairs spell the same token; the later one counts.
  std::vector<PairMerger::Pair> merges_;
  std::unordered_map<std::uint64_t, std::size_t> last_merge_;
};

}  // namespace

Tokenizer train_byte_level_bpe(std::span<const std::string_view> documents, const BpeTrainerOptions& options) {
  Trainer trainer(options);
  trainer.count_words(documents);
  trainer.make_merges();
  nlohmann::json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (!options.special_tokens.empty()) config["eos_token"] = options.special_tokens.front();
  return Tokenizer::from_json(trainer.tokenizer_json(), config.dump(2) + "\n", "trained tokenizer");
}

}  // namespace ida::text

// Rank files of tiktoken: one "<base64 of the token's bytes> <rank>" a line. A pair merges when its concatenation has
// a rank, lowest rank first. As merges: every cut of a token into two tokens, ordered by the token's rank, then by
// the ranks of the parts (the order that Hugging Face's conversion uses).
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_parts.h"
#include "text/word_patterns.h"

namespace ida::text {
namespace {

using Ranks = StringMap<std::int64_t>;

constexpr int kNumReserved = 251;
// Finding the cuts of a token takes time in proportion to the square of its length.
constexpr std::size_t kMaxTokenBytes = 1024;

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// Nothing when `text` is not base64.
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int value = base64_value(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>(bits >> num_bits & 0xFF);
    }
  }
  return bytes;
}

std::optional<RankedToken> parse_line(std::string_view line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  std::optional<std::string> token = decode_base64(line.substr(0, blank));
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(line.data() + blank + 1, line.data() + line.size(), rank);
  if (!token || error != std::errc() || end != line.data() + line.size() || rank < 0) return std::nullopt;
  return RankedToken{std::move(*token), rank};
}

// Every cut of `token` into two tokens, by the ranks of the parts.
void append_merges(const std::string& token, const Ranks& ranks, nlohmann::json& merges) {
  std::vector<std::pair<std::int64_t, std::int64_t>> cuts;
  std::vector<std::size_t> lengths;
  for (std::size_t cut = 1; cut < token.size(); ++cut) {
    const auto left = ranks.find(std::string_view(token).substr(0, cut));
    const auto right = ranks.find(std::string_view(token).substr(cut));
    if (left == ranks.end() || right == ranks.end()) continue;
    cuts.emplace_back(left->second, right->second);
    lengths.push_back(cut);
  }
  std::vector<std::size_t> order(cuts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return cuts[a] < cuts[b]; });
  for (const std::size_t i : order) {
    merges.push_back({bytes_to_alphabet(token.substr(0, lengths[i])), bytes_to_alphabet(token.substr(lengths[i]))});
  }
}

// The special tokens of Llama 3, in the order of their ids.
std::vector<std::string> llama3_special_tokens() {
  const auto reserved = [](int i) { return fmt::format("<|reserved_special_token_{}|>", i); };
  std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>", reserved(0),           reserved(1),
                                    reserved(2),         reserved(3),       "<|start_header_id|>", "<|end_header_id|>",
                                    reserved(4),         "<|eot_id|>"};
  for (int i = 5; i < kNumReserved; ++i) names.push_back(reserved(i));
  return names;
}

nlohmann::json byte_level(bool trim_offsets) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trim_offsets}, {"use_regex", false}};
}

nlohmann::json bos_template(std::int64_t id) {
  const std::string bos = "<|begin_of_text|>";
  const auto special = [&](int type) { return nlohmann::json{{"SpecialToken", {{"id", bos}, {"type_id", type}}}}; };
  const auto sequence = [](const char* name, int type) {
    return nlohmann::json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", nlohmann::json::array({special(0), sequence("A", 0)})},
          {"pair", nlohmann::json::array({special(0), sequence("A", 0), special(1), sequence("B", 1)})},
          {"special_tokens", {{bos, {{"id", bos}, {"ids", {id}}, {"tokens", {bos}}}}}}};
}

}  // namespace

std::vector<RankedToken> read_rank_file(std::string_view file, std::string_view origin) {
  std::vector<RankedToken> lines;
  std::size_t number = 0;
  while (!file.empty()) {
    ++number;
    const std::size_t end = std::min(file.find('\n'), file.size());
    std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::optional<RankedToken> parsed = parse_line(line);
    if (!parsed && lines.empty()) {
      fail_usage("{}: neither JSON nor a tiktoken rank file (SentencePiece models are not read: use tokenizer.json)",
                 origin);
    }
    if (!parsed) fail_corrupt("{}:{}: expected `<base64> <rank>`, got `{}`", origin, number, printable_excerpt(line));
    if (parsed->token.size() > kMaxTokenBytes) {
      fail_corrupt("{}:{}: a token of {} bytes; expected at most {}", origin, number, parsed->token.size(), kMaxTokenBytes);
    }
    lines.push_back(std::move(*parsed));
  }
  if (lines.empty()) fail_corrupt("{}: it is empty", origin);
  std::sort(lines.begin(), lines.end(), [](const RankedToken& a, const RankedToken& b) { return a.rank < b.rank; });
  return lines;
}

std::string tokenizer_json_of_ranks(std::string_view rank_file, std::string_view origin) {
  const std::vector<RankedToken> lines = read_rank_file(rank_file, origin);
  Ranks ranks;
  nlohmann::json vocab = nlohmann::json::object();
  for (const RankedToken& line : lines) {
    if (!ranks.emplace(line.token, line.rank).second)
      fail_corrupt("{}: the token of rank {} appears twice", origin, line.rank);
    vocab[bytes_to_alphabet(line.token)] = line.rank;
  }
  nlohmann::json merges = nlohmann::json::array();
  for (const RankedToken& line : lines) append_merges(line.token, ranks, merges);
  nlohmann::json added = nlohmann::json::array();
  std::int64_t id = lines.back().rank + 1;
  const std::int64_t bos_id = id;
  for (const std::string& name : llama3_special_tokens()) {
    added.push_back({{"id", id++},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kLlama3Pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const nlohmann::json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({split, byte_level(true)})}}},
      {"post_processor",
       {{"type", "Sequence"}, {"processors", nlohmann::json::array({byte_level(false), bos_template(bos_id)})}}},
      {"decoder", byte_level(true)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", true},
        {"vocab", std::move(vocab)},
        {"merges", std::move(merges)}}}};
  return json.dump();
}

}  // namespace ida::text

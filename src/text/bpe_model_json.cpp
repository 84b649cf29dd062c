#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/bpe_model.h"

namespace ida::text {
namespace {

class MergeReader {
 public:
  MergeReader(const Vocabulary& vocabulary, const std::string& where) : vocabulary_(vocabulary), where_(where) {}

  // Both spellings: "a b", or ["a", "b"] since tokens may hold blanks.
  MergeRule read(const nlohmann::json& merge, std::size_t index) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      const auto& left = merge[0].get_ref<const std::string&>();
      const auto& right = merge[1].get_ref<const std::string&>();
      if (const auto rule = rule_of(left, right, index)) return *rule;
    } else if (merge.is_string()) {
      if (const auto rule = read_joined(merge.get_ref<const std::string&>(), index)) return *rule;
    } else {
      fail_corrupt("{}.merges[{}]: expected \"a b\" or [\"a\", \"b\"], got {}", where_, index, json_excerpt(merge));
    }
    fail_corrupt("{}.merges[{}]: {} joins tokens that are not all in the vocabulary", where_, index, json_excerpt(merge));
  }

 private:
  std::optional<MergeRule> rule_of(std::string_view left, std::string_view right, std::size_t index) const {
    const std::int32_t left_id = vocabulary_.id_of(left);
    const std::int32_t right_id = vocabulary_.id_of(right);
    if (left_id == kNoToken || right_id == kNoToken || left.empty() || right.empty()) return std::nullopt;
    const std::int32_t result = vocabulary_.id_of(std::string(left) + std::string(right));
    if (result == kNoToken) return std::nullopt;
    return MergeRule{left_id, right_id, {static_cast<std::uint32_t>(index), result}};
  }

  // With blanks inside tokens several cuts are possible: the one that the vocabulary knows is meant.
  std::optional<MergeRule> read_joined(std::string_view merge, std::size_t index) const {
    for (std::size_t at = merge.find(' '); at != std::string_view::npos; at = merge.find(' ', at + 1)) {
      if (const auto rule = rule_of(merge.substr(0, at), merge.substr(at + 1), index)) return rule;
    }
    return std::nullopt;
  }

  const Vocabulary& vocabulary_;
  const std::string& where_;
};

std::shared_ptr<const Vocabulary> read_vocabulary(const JsonPart& json) {
  const nlohmann::json* tokens = json.find("vocab");
  if (tokens == nullptr || !tokens->is_object()) json.corrupt("vocab", "an object of token: id");
  auto vocabulary = std::make_shared<Vocabulary>();
  const std::string where = json.where() + ".vocab";
  for (const auto& [token, id] : tokens->items()) {
    if (!id.is_number_integer())
      fail_corrupt("{}: token `{}` has the id {}", where, printable_excerpt(token), json_excerpt(id));
    vocabulary->add(token, id.get<std::int64_t>(), where);
  }
  if (vocabulary->size() == 0) fail_corrupt("{}: it is empty", where);
  return vocabulary;
}

// Features of the format that no supported tokenizer uses: present but neutral is fine.
void refuse_unsupported(const JsonPart& json) {
  if (const nlohmann::json* dropout = json.find("dropout"); dropout != nullptr && *dropout != 0.0) json.refuse("dropout");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!json.string_or(key, "").empty()) json.refuse(key);
  }
}

}  // namespace

BpeModel read_bpe_model(const JsonPart& json, bool byte_level) {
  // Old files leave the type out; merges are what tells BPE from the other models.
  if (json.find("type") != nullptr) {
    if (json.string("type") != "BPE") json.refuse_type();
  } else if (json.find("merges") == nullptr) {
    json.refuse("a model without `type` and `merges`");
  }
  json.allow_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                   "byte_fallback", "ignore_merges", "vocab", "merges"});
  refuse_unsupported(json);
  const std::shared_ptr<const Vocabulary> vocabulary = read_vocabulary(json);
  const nlohmann::json* merges = json.find("merges");
  if (merges == nullptr || !merges->is_array()) json.corrupt("merges", "an array");
  std::vector<MergeRule> rules;
  rules.reserve(merges->size());
  const MergeReader reader(*vocabulary, json.where());
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const nlohmann::json& merge = (*merges)[i];
    // A line that old merges.txt files start with, carried over by converters.
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    rules.push_back(reader.read(merge, i));
  }

  BpeOptions options;
  options.byte_level = byte_level;
  options.byte_fallback = json.flag("byte_fallback", false);
  options.fuse_unk = json.flag("fuse_unk", false);
  options.ignore_merges = json.flag("ignore_merges", false);
  options.unk_token = json.string_or("unk_token", "");
  if (!options.unk_token.empty() && vocabulary->id_of(options.unk_token) == kNoToken) {
    fail_corrupt("{}: unk_token `{}` is not in the vocabulary", json.where(), printable_excerpt(options.unk_token));
  }
  return BpeModel(vocabulary, rules, std::move(options));
}

}  // namespace ida::text

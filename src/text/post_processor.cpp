#include "text/post_processor.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/json_part.h"
#include "text/vocabulary.h"

namespace ida::text {
namespace {

std::int32_t checked_id(const nlohmann::json& value, std::string_view where) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() >= kMaxTokenId) {
    fail_corrupt("{}: expected a token id, got {}", where, json_excerpt(value));
  }
  return value.get<std::int32_t>();
}

// Ids of a special token of a template, from its own table.
std::vector<std::int32_t> template_ids(const JsonPart& json, const JsonPart& item) {
  item.allow_keys({"id", "type_id"});
  const JsonPart entry = json.part("special_tokens").part(item.string("id"));
  const nlohmann::json* ids = entry.find("ids");
  if (ids == nullptr || !ids->is_array()) entry.corrupt("ids", "an array of token ids");
  std::vector<std::int32_t> result;
  for (const nlohmann::json& id : *ids) result.push_back(checked_id(id, entry.where()));
  return result;
}

PostProcessor read_template(const JsonPart& json) {
  json.allow_keys({"type", "single", "pair", "special_tokens"});
  PostProcessor result;
  bool after_sequence = false;
  for (const JsonPart& item : json.parts("single")) {
    item.allow_keys({"SpecialToken", "Sequence"});
    if (item.find("Sequence") != nullptr) {
      if (after_sequence || item.part("Sequence").string("id") != "A") json.refuse("a template that is not one sequence A");
      after_sequence = true;
      continue;
    }
    const std::vector<std::int32_t> ids = template_ids(json, item.part("SpecialToken"));
    std::vector<std::int32_t>& side = after_sequence ? result.after : result.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!after_sequence) json.corrupt("single", "a template with Sequence A");
  return result;
}

// RobertaProcessing and BertProcessing: `cls` before, `sep` after, each [token, id].
PostProcessor read_cls_sep(const JsonPart& json) {
  json.allow_keys({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const auto id_of = [&](std::string_view key) {
    const nlohmann::json* pair = json.find(key);
    if (pair == nullptr || !pair->is_array() || pair->size() != 2) json.corrupt(key, "[token, id]");
    return checked_id((*pair)[1], json.where());
  };
  return {{id_of("cls")}, {id_of("sep")}};
}

PostProcessor read_part(const JsonPart& json) {
  const std::string type = json.string("type");
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "RobertaProcessing" || type == "BertProcessing") return read_cls_sep(json);
  if (type == "ByteLevel") {
    json.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type != "Sequence") json.refuse_type();
  json.allow_keys({"type", "processors"});
  PostProcessor result;
  for (const JsonPart& part : json.parts("processors")) {
    const PostProcessor inner = read_part(part);
    result.before.insert(result.before.begin(), inner.before.begin(), inner.before.end());
    result.after.insert(result.after.end(), inner.after.begin(), inner.after.end());
  }
  return result;
}

}  // namespace

PostProcessor read_post_processor(const nlohmann::json& json, std::string_view where) {
  return json.is_null() ? PostProcessor{} : read_part(JsonPart(json, std::string(where)));
}

}  // namespace ida::text

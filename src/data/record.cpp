#include "data/record.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace ida::data {
namespace {

using nlohmann::json;

constexpr std::string_view kForms =
    "text, messages, conversations, prompt and completion, instruction and output, or input_ids";

// Keys that decide the form or belong to one. Others are kept only as far as an error message shows them.
constexpr std::array<std::string_view, 10> kKnownKeys = {
    "text", "messages", "conversations", "prompt", "completion", "instruction", "input", "output", "input_ids", "labels"};
constexpr std::size_t kMaxShownKeys = 12;

// Checks the syntax and keeps the top-level keys and "text", so that a plain record costs no tree. Returning false stops
// the parser.
class RecordScan final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool string(string_t& value) override {
    if (!at_text_) return scalar();
    at_text_ = false;
    text = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    at_text_ = name == "text";
    const bool known = std::find(kKnownKeys.begin(), kKnownKeys.end(), name) != kKnownKeys.end();
    if (known && has(name)) return refuse(fmt::format("key \"{}\" appears twice", name));
    if (known || keys.size() < kMaxShownKeys) keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return refuse(fmt::format("malformed JSON at byte {}", position));
  }

  bool has(std::string_view name) const { return std::find(keys.begin(), keys.end(), name) != keys.end(); }

  std::vector<std::string> keys;
  std::string text;
  std::string problem;

 private:
  bool refuse(std::string reason) {
    problem = std::move(reason);
    return false;
  }
  bool scalar() {
    if (depth_ == 0) return refuse("expected a JSON object");
    return at_text_ ? refuse("key \"text\" is not a string") : true;
  }
  bool open(bool object) {
    if (depth_ == 0 && !object) return refuse("expected a JSON object, got an array");
    if (at_text_) return refuse("key \"text\" is not a string");
    if (++depth_ > kMaxRecordDepth) return refuse(fmt::format("nested deeper than {} levels", kMaxRecordDepth));
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  bool at_text_ = false;
};

// `place` names the value in messages: "messages[2].content".
std::string text_at(const json& object, const char* key, const std::string& place, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) fail_corrupt("{}: {} is missing", where, place);
  if (!found->is_string()) fail_corrupt("{}: {} is {}, expected a string", where, place, json_excerpt(*found));
  return found->get<std::string>();
}

// Both spellings of roles; empty: unknown.
std::string_view role_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kRoles = {{{"system", "system"},
                                                                                    {"user", "user"},
                                                                                    {"human", "user"},
                                                                                    {"assistant", "assistant"},
                                                                                    {"gpt", "assistant"},
                                                                                    {"tool", "tool"},
                                                                                    {"observation", "tool"}}};
  const auto found = std::find_if(kRoles.begin(), kRoles.end(), [&](const auto& role) { return role.first == name; });
  return found == kRoles.end() ? std::string_view() : found->second;
}

std::vector<Message> messages_of(const json& record, const char* key, const char* role_key, const char* content_key,
                                 std::string_view where) {
  const json& list = record.at(key);
  if (!list.is_array()) fail_corrupt("{}: \"{}\" is {}, expected an array", where, key, json_excerpt(list));
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", key, i);
    if (!list[i].is_object()) fail_corrupt("{}: {} is {}, expected an object", where, place, json_excerpt(list[i]));
    for (const char* unread : {"tool_calls", "function_call"}) {
      if (list[i].contains(unread)) fail_usage("{}: {} has \"{}\", which is not read", where, place, unread);
    }
    const std::string role = text_at(list[i], role_key, place + "." + role_key, where);
    if (role_of(role).empty()) {
      fail_corrupt("{}: {}.{} is \"{}\", expected system, user (human), assistant (gpt) or tool (observation)", where,
                   place, role_key, printable_excerpt(role));
    }
    messages.push_back({std::string(role_of(role)), text_at(list[i], content_key, place + "." + content_key, where)});
  }
  return messages;
}

std::vector<Message> instruction_messages(const json& record, std::string_view where) {
  std::string question = text_at(record, "instruction", "\"instruction\"", where);
  if (record.contains("input")) {
    const std::string input = text_at(record, "input", "\"input\"", where);
    if (!input.empty()) question += "\n\n" + input;
  }
  return {{"user", std::move(question)}, {"assistant", text_at(record, "output", "\"output\"", where)}};
}

std::vector<std::int64_t> integers_at(const json& record, const char* key, std::string_view where) {
  const json& list = record.at(key);
  if (!list.is_array()) fail_corrupt("{}: \"{}\" is {}, expected an array", where, key, json_excerpt(list));
  std::vector<std::int64_t> values;
  values.reserve(list.size());
  for (const json& value : list) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())) {
      fail_corrupt("{}: {}[{}] is {}, expected a token id", where, key, values.size(), json_excerpt(value));
    }
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

void read_ids(const json& record, std::string_view where, Record& out) {
  const std::vector<std::int64_t> ids = integers_at(record, "input_ids", where);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) fail_corrupt("{}: input_ids[{}] is {}, expected a token id", where, i, ids[i]);
    out.ids.push_back(static_cast<std::int32_t>(ids[i]));
  }
  if (!record.contains("labels")) return;
  const std::vector<std::int64_t> labels = integers_at(record, "labels", where);
  if (labels.size() != ids.size())
    fail_corrupt("{}: {} labels for {} input_ids, expected one each", where, labels.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (labels[i] != -100 && labels[i] != ids[i])
      fail_corrupt("{}: labels[{}] is {}, expected -100 or input_ids[{}] = {} (labels are not shifted)", where, i,
                   labels[i], i, ids[i]);
    out.trained.push_back(labels[i] == -100 ? 0 : 1);
  }
}

}  // namespace

Record parse_record(std::string_view line, std::string_view where) {
  RecordScan scan;
  if (!json::sax_parse(line.begin(), line.end(), &scan)) {
    fail_corrupt("{}: {}; expected one JSON object a line, {{\"text\": \"...\"}} or another form", where, scan.problem);
  }
  const bool text = scan.has("text");
  const bool messages = scan.has("messages");
  const bool conversations = scan.has("conversations");
  const bool completion = scan.has("prompt") && scan.has("completion");
  const bool instruction = scan.has("instruction") && scan.has("output");
  const bool ids = scan.has("input_ids");
  const int num_forms = text + messages + conversations + completion + instruction + ids;
  if (num_forms != 1) {
    std::string keys;
    for (const std::string& key : scan.keys) keys += (keys.empty() ? "" : ", ") + printable_excerpt(key);
    fail_usage("{}: a record with the keys {} has {}; expected one of: {}", where, keys.empty() ? "(none)" : keys,
               num_forms == 0 ? "no known form" : "more than one form", kForms);
  }
  Record record;
  if (text) {
    record.text = std::move(scan.text);
    return record;
  }
  const json tree = parse_json(line, where);
  if (ids) {
    record.form = RecordForm::kIds;
    read_ids(tree, where, record);
  } else if (completion) {
    record.form = RecordForm::kCompletion;
    record.prompt = text_at(tree, "prompt", "\"prompt\"", where);
    record.completion = text_at(tree, "completion", "\"completion\"", where);
  } else {
    record.form = RecordForm::kConversation;
    record.messages = messages        ? messages_of(tree, "messages", "role", "content", where)
                      : conversations ? messages_of(tree, "conversations", "from", "value", where)
                                      : instruction_messages(tree, where);
  }
  return record;
}

}  // namespace ida::data

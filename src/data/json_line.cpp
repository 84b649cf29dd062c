#include "data/json_line.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ida::data {
namespace {

using nlohmann::json;

// Keys that announce a conversation or an instruction instead of plain text.
constexpr std::array<std::string_view, 7> kOtherForms = {"messages",    "conversations", "prompt",   "completion",
                                                         "instruction", "chosen",        "input_ids"};

// Keeps the top-level "text" and nothing else, so a record costs no tree. Returning false stops the parser.
class TextHandler final : public nlohmann::json_sax<json> {
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
    if (has_text) return refuse("key \"text\" appears twice");
    has_text = true;
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
    for (std::string_view form : kOtherForms) {
      if (name == form && other_form.empty()) other_form = form;
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return refuse(fmt::format("malformed JSON at byte {}", position));
  }

  bool has_text = false;
  std::string text;
  std::string problem;
  std::string_view other_form;

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
    if (++depth_ > kMaxJsonDepth) return refuse(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  bool at_text_ = false;
};

}  // namespace

std::string text_of_json_line(std::string_view line, std::string_view where) {
  TextHandler handler;
  if (!json::sax_parse(line.begin(), line.end(), &handler)) {
    fail_corrupt("{}: {}; expected one JSON object {{\"text\": \"...\"}} a line", where, handler.problem);
  }
  if (!handler.has_text) {
    if (!handler.other_form.empty()) {
      fail_usage("{}: record of the form \"{}\", which is not read; write each record as {{\"text\": \"...\"}}", where,
                 handler.other_form);
    }
    fail_usage("{}: record without the key \"text\"; write each record as {{\"text\": \"...\"}}", where);
  }
  return std::move(handler.text);
}

}  // namespace ida::data

#include "base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"

namespace ida {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxExcerptChars = 120;

// Watches the parse events: nesting depth and keys of every open object.
class StrictWatch {
 public:
  explicit StrictWatch(std::string_view origin) : origin_(origin) {}

  bool operator()(int /*depth*/, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        keys_.emplace_back();
        if (static_cast<int>(keys_.size()) >= kMaxJsonDepth) {
          fail_corrupt("{}: JSON nested {} levels deep, at most {} are accepted", origin_, keys_.size(), kMaxJsonDepth - 1);
        }
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end: keys_.pop_back(); break;
      case Json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get<std::string>()).second) {
          fail_corrupt("{}: JSON key '{}' appears twice in one object", origin_,
                       printable_excerpt(parsed.get_ref<const std::string&>()));
        }
        break;
      case Json::parse_event_t::value: break;
    }
    return true;
  }

 private:
  std::string_view origin_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view origin) {
  if (text.starts_with("\xEF\xBB\xBF")) fail_corrupt("{}: JSON starts with a byte-order mark", origin);
  // The parser takes a NUL byte for the end of its input and would ignore what follows.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) fail_corrupt("{}: NUL byte at offset {} of a JSON text", origin, nul);
  try {
    StrictWatch watch(origin);
    return Json::parse(
        text, [&watch](int depth, Json::parse_event_t event, Json& parsed) { return watch(depth, event, parsed); });
  } catch (const Json::exception& error) {
    fail_corrupt("{}: not valid JSON: {}", origin, json_error_text(error.what()));
  }
}

std::string printable_excerpt(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (result.size() >= kMaxExcerptChars) return result + "...";
    if (byte < 0x20 || byte >= 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

std::string json_excerpt(const Json& value) {
  return printable_excerpt(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::string json_error_text(const char* what) {
  std::string_view text(what);
  const std::size_t bracket = text.find("] ");
  if (text.starts_with("[json.exception") && bracket != std::string_view::npos) text.remove_prefix(bracket + 2);
  return printable_excerpt(text);
}

}  // namespace ida

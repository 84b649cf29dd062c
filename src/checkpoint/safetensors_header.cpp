#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace ida::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";

// Where the next event belongs.
enum class State {
  kStart,     // before the outer object
  kName,      // in the outer object, a key was or will be read
  kMetadata,  // in __metadata__
  kEntry,     // in the object of one tensor
  kShape,     // in the array "shape"
  kOffsets,   // in the array "data_offsets"
  kIgnored    // inside the value of an unknown field of a tensor
};

class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderEvents(std::string_view origin) : origin_(origin) {}

  Header take_header() { return std::move(header_); }

  bool null() override {
    if (state_ == State::kName && key_ == kMetadataKey) return true;
    return scalar("null");
  }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return scalar(fmt::format("{}", value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return scalar(text); }
  bool binary(binary_t& /*value*/) override { return false; }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      entry_.shape.push_back(value);
      return true;
    }
    if (state_ == State::kOffsets) {
      offsets_.push_back(value);
      return true;
    }
    return scalar(fmt::format("{}", value));
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (state_ == State::kEntry && key_ == "dtype") {
      const std::optional<StoredDType> dtype = find_stored_dtype(value);
      if (!dtype) fail_here("dtype '{}' is not known", printable_excerpt(value));
      entry_.dtype = *dtype;
      return true;
    }
    return scalar(value);
  }

  bool start_object(std::size_t /*size*/) override {
    enter();
    if (state_ == State::kStart) {
      state_ = State::kName;
    } else if (state_ == State::kName && key_ == kMetadataKey) {
      state_ = State::kMetadata;
    } else if (state_ == State::kName) {
      state_ = State::kEntry;
      entry_ = HeaderEntry{.name = key_};
      fields_.clear();
    } else if (is_ignored_field()) {
      state_ = State::kIgnored;
      ++ignored_depth_;
    } else {
      fail_here("an object where none belongs");
    }
    return true;
  }

  bool end_object() override {
    --depth_;
    if (state_ == State::kIgnored) {
      leave_ignored();
    } else if (state_ == State::kMetadata) {
      state_ = State::kName;
    } else if (state_ == State::kEntry) {
      finish_entry();
      state_ = State::kName;
    }
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    enter();
    if (state_ == State::kEntry && key_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kEntry && key_ == "data_offsets") {
      state_ = State::kOffsets;
      offsets_.clear();
    } else if (is_ignored_field()) {
      state_ = State::kIgnored;
      ++ignored_depth_;
    } else {
      fail_here("an array where none belongs");
    }
    return true;
  }

  bool end_array() override {
    --depth_;
    if (state_ == State::kIgnored) {
      leave_ignored();
      return true;
    }
    if (state_ == State::kOffsets) {
      if (offsets_.size() != 2) fail_here("data_offsets holds {} numbers, expected 2", offsets_.size());
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
    }
    state_ = State::kEntry;
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::kIgnored) return true;
    key_ = value;
    std::set<std::string>& seen = state_ == State::kName ? names_ : state_ == State::kMetadata ? metadata_keys_ : fields_;
    if (!seen.insert(value).second) fail_here("key '{}' appears twice", printable_excerpt(value));
    if (state_ == State::kName && value.find('\0') != std::string::npos) {
      fail_here("tensor name '{}' holds a NUL", printable_excerpt(value));
    }
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Json::exception& error) override {
    fail_corrupt("{}: header is not valid JSON: {}", origin_, json_error_text(error.what()));
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string detail = fmt::format(format, std::forward<Args>(args)...);
    const bool in_tensor = state_ == State::kEntry || state_ == State::kShape || state_ == State::kOffsets;
    if (in_tensor) fail_corrupt("{}: tensor '{}': {}", origin_, printable_excerpt(entry_.name), detail);
    fail_corrupt("{}: header: {}", origin_, detail);
  }

  bool is_ignored_field() const {
    if (state_ == State::kIgnored) return true;
    return state_ == State::kEntry && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets";
  }

  // A plain value that no typed case above took.
  bool scalar(const std::string& text) {
    if (is_ignored_field()) return true;
    const bool in_array = state_ == State::kShape || state_ == State::kOffsets;
    if (in_array) {
      fail_here("{} must hold unsigned 64-bit integers, got {}", state_ == State::kShape ? "shape" : "data_offsets",
                printable_excerpt(text));
    }
    if (state_ == State::kStart) fail_here("expected an object, got {}", printable_excerpt(text));
    if (state_ == State::kMetadata) {
      fail_here("__metadata__ value of '{}' is not a string", printable_excerpt(key_));
    }
    fail_here("wrong type for key '{}': {}", printable_excerpt(key_), printable_excerpt(text));
  }

  void enter() {
    if (++depth_ >= kMaxJsonDepth) fail_here("nested {} levels deep, at most {} are accepted", depth_, kMaxJsonDepth - 1);
  }

  void leave_ignored() {
    if (--ignored_depth_ == 0) state_ = State::kEntry;
  }

  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) fail_here("field '{}' is missing", field);
    }
    header_.entries.push_back(std::move(entry_));
  }

  std::string_view origin_;
  Header header_;
  State state_ = State::kStart;
  int depth_ = 0;
  int ignored_depth_ = 0;
  std::string key_;
  HeaderEntry entry_;
  std::vector<std::uint64_t> offsets_;
  std::set<std::string> names_;
  std::set<std::string> metadata_keys_;
  std::set<std::string> fields_;
};

}  // namespace

Header parse_safetensors_header(std::string_view json, std::string_view origin) {
  // The parser below takes a NUL for the end of its input and skips a byte-order mark: both are refused first.
  const std::size_t nul = json.find('\0');
  if (nul != std::string_view::npos) fail_corrupt("{}: header holds a NUL byte at offset {}", origin, nul);
  const std::size_t first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json[first] != '{') fail_corrupt("{}: header does not start with '{{'", origin);
  HeaderEvents events(origin);
  Json::sax_parse(json.begin(), json.end(), &events);
  return events.take_header();
}

}  // namespace ida::checkpoint

#include "text/decoder.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/json_part.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace ida::text {
namespace {

using Steps = std::vector<std::shared_ptr<const DecoderStep>>;

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

class ByteLevel final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      if (std::optional<std::string> bytes = alphabet_to_bytes(token)) token = std::move(*bytes);
    }
    tokens = {joined(tokens, "")};
  }
};

class Replace final : public DecoderStep {
 public:
  explicit Replace(const JsonPart& json) : pattern_(json), content_(json.string("content")) {
    json.allow_keys({"type", "pattern", "content"});
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = pattern_.replace_all(token, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// `<0xNN>` becomes the byte.
class ByteFallback final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') continue;
      const int high = hex_digit(token[3]);
      const int low = hex_digit(token[4]);
      if (high >= 0 && low >= 0) token = std::string(1, static_cast<char>(high * 16 + low));
    }
  }

 private:
  static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }
};

class Fuse final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens) const override { tokens = {joined(tokens, "")}; }
};

// Removes up to `start` leading and `stop` trailing copies of a character from each token.
class Strip final : public DecoderStep {
 public:
  explicit Strip(const JsonPart& json)
      : content_(json.string("content")), start_(json.integer("start", 0)), stop_(json.integer("stop", 0)) {
    json.allow_keys({"type", "content", "start", "stop"});
    if (content_.empty()) json.corrupt("content", "one character");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (std::int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  std::int64_t start_;
  std::int64_t stop_;
};

class Metaspace final : public DecoderStep {
 public:
  explicit Metaspace(const JsonPart& json) : replacement_(json.string_or("replacement", "\xE2\x96\x81")) {
    json.allow_keys({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    const bool add_prefix_space = json.flag("add_prefix_space", true);
    drop_first_ = json.string_or("prepend_scheme", add_prefix_space ? "always" : "never") != "never";
    if (replacement_.empty()) json.corrupt("replacement", "one character");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string_view content = i == 0 && drop_first_ ? "" : " ";
      std::string out;
      std::size_t done = 0;
      for (std::size_t at = tokens[i].find(replacement_); at != std::string::npos;
           at = tokens[i].find(replacement_, done)) {
        out.append(tokens[i], done, at - done);
        out += content;
        done = at + replacement_.size();
      }
      out.append(tokens[i], done);
      tokens[i] = std::move(out);
    }
  }

 private:
  std::string replacement_;
  bool drop_first_ = true;
};

void append_steps(Steps& steps, const JsonPart& json) {
  const std::string type = json.string("type");
  if (type == "Sequence") {
    json.allow_keys({"type", "decoders"});
    for (const JsonPart& part : json.parts("decoders")) append_steps(steps, part);
  } else if (type == "ByteLevel") {
    json.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    steps.push_back(std::make_shared<ByteLevel>());
  } else if (type == "Replace") {
    steps.push_back(std::make_shared<Replace>(json));
  } else if (type == "ByteFallback") {
    json.allow_keys({"type"});
    steps.push_back(std::make_shared<ByteFallback>());
  } else if (type == "Fuse") {
    json.allow_keys({"type"});
    steps.push_back(std::make_shared<Fuse>());
  } else if (type == "Strip") {
    steps.push_back(std::make_shared<Strip>(json));
  } else if (type == "Metaspace") {
    steps.push_back(std::make_shared<Metaspace>(json));
  } else {
    json.refuse_type();
  }
}

}  // namespace

Decoder::Decoder(const nlohmann::json& json, std::string_view where) {
  if (json.is_null()) return;
  append_steps(steps_, JsonPart(json, std::string(where)));
  byte_level_only_ = steps_.size() == 1 && dynamic_cast<const ByteLevel*>(steps_.front().get()) != nullptr;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  if (steps_.empty()) return joined(tokens, " ");
  for (const auto& step : steps_) step->apply(tokens);
  return joined(tokens, "");
}

}  // namespace ida::text

#include "text/normalizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "text/json_part.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace ida::text {
namespace {

using Steps = std::vector<std::shared_ptr<const NormalizerStep>>;

class UnicodeForm final : public NormalizerStep {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  std::string apply(std::string_view text) const override { return normalize_utf8(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase final : public NormalizerStep {
 public:
  std::string apply(std::string_view text) const override { return lowercase_utf8(text); }
};

class Replace final : public NormalizerStep {
 public:
  explicit Replace(const JsonPart& json) : pattern_(json), content_(json.string("content")) {
    json.allow_keys({"type", "pattern", "content"});
  }
  std::string apply(std::string_view text) const override { return pattern_.replace_all(text, content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend final : public NormalizerStep {
 public:
  explicit Prepend(const JsonPart& json) : prefix_(json.string("prepend")) { json.allow_keys({"type", "prepend"}); }
  std::string apply(std::string_view text) const override { return text.empty() ? "" : prefix_ + std::string(text); }

 private:
  std::string prefix_;
};

class Strip final : public NormalizerStep {
 public:
  explicit Strip(const JsonPart& json) : left_(json.flag("strip_left", true)), right_(json.flag("strip_right", true)) {
    json.allow_keys({"type", "strip_left", "strip_right"});
  }

  std::string apply(std::string_view text) const override {
    std::size_t begin = 0;
    std::size_t end = 0;  // after the last character that is kept
    bool inside = !left_;
    for (std::size_t i = 0; i < text.size();) {
      const Utf8Char c = decode_utf8(text, i);
      const bool space = c.valid && is_white_space(c.code);
      if (!inside && !space) {
        inside = true;
        begin = i;
      }
      i += c.length;
      if (inside && !(right_ && space)) end = i;
    }
    return std::string(end > begin ? text.substr(begin, end - begin) : std::string_view());
  }

 private:
  bool left_;
  bool right_;
};

void append_steps(Steps& steps, const JsonPart& json) {
  const std::string type = json.string("type");
  const auto add_form = [&](NormalForm form) {
    json.allow_keys({"type"});
    steps.push_back(std::make_shared<UnicodeForm>(form));
  };
  if (type == "Sequence") {
    json.allow_keys({"type", "normalizers"});
    for (const JsonPart& part : json.parts("normalizers")) append_steps(steps, part);
  } else if (type == "NFC") {
    add_form(NormalForm::kNfc);
  } else if (type == "NFD") {
    add_form(NormalForm::kNfd);
  } else if (type == "NFKC") {
    add_form(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    add_form(NormalForm::kNfkd);
  } else if (type == "Lowercase") {
    json.allow_keys({"type"});
    steps.push_back(std::make_shared<Lowercase>());
  } else if (type == "Replace") {
    steps.push_back(std::make_shared<Replace>(json));
  } else if (type == "Prepend") {
    steps.push_back(std::make_shared<Prepend>(json));
  } else if (type == "Strip") {
    steps.push_back(std::make_shared<Strip>(json));
  } else {
    json.refuse_type();
  }
}

}  // namespace

Normalizer::Normalizer(const nlohmann::json& json, std::string_view where) {
  if (!json.is_null()) append_steps(steps_, JsonPart(json, std::string(where)));
}

std::string Normalizer::apply(std::string_view text) const {
  if (steps_.empty()) return std::string(text);
  std::string result = steps_.front()->apply(text);
  for (std::size_t i = 1; i < steps_.size(); ++i) result = steps_[i]->apply(result);
  return result;
}

}  // namespace ida::text

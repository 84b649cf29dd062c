#include "text/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/json_part.h"
#include "text/pattern.h"
#include "text/split_behavior.h"
#include "text/unicode.h"
#include "text/word_patterns.h"

namespace ida::text {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

void emit(const Piece& piece, std::size_t begin, std::size_t end, const PieceSink& sink) {
  if (end > begin) sink({piece.text.substr(begin, end - begin), piece.at_text_start && begin == 0});
}

class ByteLevel final : public PreTokenizerStep {
 public:
  // `spell`: hand the words on in the byte alphabet.
  ByteLevel(const JsonPart& json, bool spell) : add_prefix_space_(json.flag("add_prefix_space", true)), spell_(spell) {
    json.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (json.flag("use_regex", true)) regex_.emplace(kGpt2Pattern, json.where());
  }

  void split(const Piece& piece, const PieceSink& sink) const override {
    if (add_prefix_space_ && !piece.text.empty() && piece.text[0] != ' ') {
      const std::string prefixed = " " + std::string(piece.text);
      split_words({prefixed, piece.at_text_start}, sink);
    } else {
      split_words(piece, sink);
    }
  }

 private:
  void split_words(const Piece& piece, const PieceSink& sink) const {
    if (!regex_) return hand_on(piece, 0, piece.text.size(), sink);
    std::size_t run_begin = 0;
    for_each_utf8_run(piece.text, [&](std::string_view run, bool valid) {
      if (valid) {
        regex_->for_each_part(run, [&](std::size_t begin, std::size_t end, bool) {
          hand_on(piece, run_begin + begin, run_begin + end, sink);
        });
      } else {
        hand_on(piece, run_begin, run_begin + run.size(), sink);
      }
      run_begin += run.size();
    });
  }

  void hand_on(const Piece& piece, std::size_t begin, std::size_t end, const PieceSink& sink) const {
    if (!spell_) return emit(piece, begin, end, sink);
    const std::string spelled = bytes_to_alphabet(piece.text.substr(begin, end - begin));
    emit({spelled, piece.at_text_start && begin == 0}, 0, spelled.size(), sink);
  }

  bool add_prefix_space_;
  bool spell_;
  std::optional<Regex> regex_;
};

class Split final : public PreTokenizerStep {
 public:
  explicit Split(const JsonPart& json)
      : pattern_(json), behavior_(read_split_behavior(json, std::nullopt)), invert_(json.flag("invert", false)) {
    json.allow_keys({"type", "pattern", "behavior", "invert"});
  }

  void split(const Piece& piece, const PieceSink& sink) const override {
    split_by(
        behavior_,
        [&](auto&& part) {
          pattern_.for_each_part(piece.text, [&](std::size_t begin, std::size_t end, bool is_match) {
            part(begin, end, is_match != invert_);
          });
        },
        [&](std::size_t begin, std::size_t end) { emit(piece, begin, end, sink); });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Cuts at characters with a property.
class CharSplit final : public PreTokenizerStep {
 public:
  CharSplit(CharPredicate predicate, SplitBehavior behavior) : predicate_(predicate), behavior_(behavior) {}

  void split(const Piece& piece, const PieceSink& sink) const override {
    split_by(
        behavior_,
        [&](auto&& part) {
          std::size_t done = 0;
          for (std::size_t i = 0; i < piece.text.size();) {
            const Utf8Char c = decode_utf8(piece.text, i);
            if (c.valid && predicate_(c.code)) {
              if (i > done) part(done, i, false);
              done = i + c.length;
              part(i, done, true);
            }
            i += c.length;
          }
          if (done < piece.text.size()) part(done, piece.text.size(), false);
        },
        [&](std::size_t begin, std::size_t end) { emit(piece, begin, end, sink); });
  }

 private:
  CharPredicate predicate_;
  SplitBehavior behavior_;
};

// Writes blanks as the replacement character, puts one in front, and cuts before each.
class Metaspace final : public PreTokenizerStep {
 public:
  explicit Metaspace(const JsonPart& json)
      : replacement_(json.string_or("replacement", kMetaspace)), split_(json.flag("split", true)) {
    json.allow_keys({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    const bool add_prefix_space = json.flag("add_prefix_space", true);
    const std::string scheme = json.string_or("prepend_scheme", add_prefix_space ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      json.corrupt("prepend_scheme", "always, first or never");
    always_ = scheme == "always";
    first_ = scheme == "first";
    if (replacement_.empty()) json.corrupt("replacement", "one character");
  }

  void split(const Piece& piece, const PieceSink& sink) const override {
    std::string text;
    text.reserve(piece.text.size() + 3);
    for (const char c : piece.text) {
      if (c == ' ') {
        text += replacement_;
      } else {
        text += c;
      }
    }
    const bool prepend = always_ || (first_ && piece.at_text_start);
    if (prepend && !text.starts_with(replacement_)) text.insert(0, replacement_);
    const Piece spelled{text, piece.at_text_start};
    std::size_t begin = 0;
    if (split_) {
      for (std::size_t at = text.find(replacement_); at != std::string::npos;
           at = text.find(replacement_, at + replacement_.size())) {
        emit(spelled, begin, at, sink);
        begin = at;
      }
    }
    emit(spelled, begin, text.size(), sink);
  }

 private:
  std::string replacement_;
  bool split_;
  bool always_ = false;
  bool first_ = false;
};

// The leaves of nested sequences, in order.
void flatten(const JsonPart& json, std::vector<JsonPart>& leaves) {
  if (json.string("type") == "Sequence") {
    json.allow_keys({"type", "pretokenizers"});
    for (const JsonPart& part : json.parts("pretokenizers")) flatten(part, leaves);
  } else {
    leaves.push_back(json);
  }
}

std::shared_ptr<const PreTokenizerStep> make_step(const JsonPart& json, bool spell) {
  const std::string type = json.string("type");
  if (type == "ByteLevel") return std::make_shared<ByteLevel>(json, spell);
  if (type == "Split") return std::make_shared<Split>(json);
  if (type == "Metaspace") return std::make_shared<Metaspace>(json);
  if (type == "Digits") {
    json.allow_keys({"type", "individual_digits"});
    const bool individual = json.flag("individual_digits", false);
    return std::make_shared<CharSplit>(is_numeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    json.allow_keys({"type", "behavior"});
    return std::make_shared<CharSplit>(is_punctuation, read_split_behavior(json, SplitBehavior::kIsolated));
  }
  json.refuse_type();
}

void run_steps(const std::vector<std::shared_ptr<const PreTokenizerStep>>& steps, std::size_t index, const Piece& piece,
               const WordSink& sink) {
  if (index == steps.size()) return sink(piece.text);
  steps[index]->split(piece, [&](const Piece& part) { run_steps(steps, index + 1, part, sink); });
}

}  // namespace

PreTokenizer::PreTokenizer(const nlohmann::json& json, std::string_view where) {
  if (json.is_null()) return;
  std::vector<JsonPart> leaves;
  flatten(JsonPart(json, std::string(where)), leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const bool is_byte_level = leaves[i].string("type") == "ByteLevel";
    if (is_byte_level && byte_level_) leaves[i].refuse("a second ByteLevel");
    const bool spell = is_byte_level && i + 1 < leaves.size();
    steps_.push_back(make_step(leaves[i], spell));
    byte_level_ |= is_byte_level;
    spelled_in_alphabet_ |= spell;
  }
}

void PreTokenizer::split(const Piece& piece, const WordSink& sink) const {
  if (piece.text.empty()) return;
  if (!spelled_in_alphabet_) return run_steps(steps_, 0, piece, sink);
  run_steps(steps_, 0, piece, [&](std::string_view word) {
    const std::optional<std::string> bytes = alphabet_to_bytes(word);
    if (bytes) sink(*bytes);
  });
}

}  // namespace ida::text

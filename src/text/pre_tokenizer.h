// Pre-tokenizers of a tokenizer.json: ByteLevel, Split, Digits, Punctuation, Metaspace, Sequence.
// They cut one piece of text into words, inside which alone the model merges.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "text/function_ref.h"

namespace ida::text {

// Receives words in order; a view is valid during the call only.
using WordSink = FunctionRef<void(std::string_view word)>;

// A piece of text on its way through the steps.
struct Piece {
  std::string_view text;
  bool at_text_start = false;  // nothing of the original text lies before it
};
using PieceSink = FunctionRef<void(const Piece& piece)>;

class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual void split(const Piece& piece, const PieceSink& sink) const = 0;
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  // `json` is the value under "pre_tokenizer" (null: none). Other types are refused by name (kUsage).
  PreTokenizer(const nlohmann::json& json, std::string_view where);

  // Words are byte strings of the text itself; the model's vocabulary is spelled in the byte alphabet.
  bool byte_level() const { return byte_level_; }
  bool empty() const { return steps_.empty(); }
  // With byte_level() every byte of the piece reaches the sink exactly once, but for what a Split removes.
  void split(const Piece& piece, const WordSink& sink) const;

 private:
  std::vector<std::shared_ptr<const PreTokenizerStep>> steps_;
  bool byte_level_ = false;
  bool spelled_in_alphabet_ = false;  // steps after ByteLevel see the byte alphabet, so words are spelled back
};

}  // namespace ida::text

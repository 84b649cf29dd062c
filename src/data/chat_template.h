// From a conversation to text: the one place that knows how turns are written.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/record.h"

namespace ida::data {

// A stretch of a document's text. Stretches are encoded one by one, so that a border never lies inside a token.
struct TextSegment {
  std::string text;
  bool answer = false;     // what a model should say: may be a target under every mask
  std::int64_t turn = 0;   // the message it belongs to
  bool ends_turn = false;  // the tokenizer's EOS follows and belongs to the stretch
  bool operator==(const TextSegment&) const = default;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  virtual std::vector<TextSegment> render(std::span<const Message> messages) const = 0;
  // Changes whenever the text of some conversation could change.
  virtual std::string id() const = 0;
};

// Every turn is "<|role|>\n", the content, EOS; a line break comes between two turns. Answers are the contents of the
// assistant's turns with their EOS. Needs no tokens of its own in the vocabulary.
class PlainChatTemplate final : public ChatTemplate {
 public:
  std::vector<TextSegment> render(std::span<const Message> messages) const override;
  std::string id() const override { return "plain 1"; }
};

}  // namespace ida::data

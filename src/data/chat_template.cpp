#include "data/chat_template.h"

namespace ida::data {

std::vector<TextSegment> PlainChatTemplate::render(std::span<const Message> messages) const {
  std::vector<TextSegment> segments;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto turn = static_cast<std::int64_t>(i);
    segments.push_back({.text = (i > 0 ? "\n<|" : "<|") + messages[i].role + "|>\n", .turn = turn});
    segments.push_back(
        {.text = messages[i].content, .answer = messages[i].role == "assistant", .turn = turn, .ends_turn = true});
  }
  return segments;
}

}  // namespace ida::data

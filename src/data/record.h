// One record of a .jsonl corpus, in whichever form its keys announce:
//   text           {"text": "..."}
//   conversation   {"messages": [{"role": "user", "content": "..."}, ...]}
//                  {"conversations": [{"from": "human", "value": "..."}, ...]}
//                  {"instruction": "...", "input": "...", "output": "..."}; "input" may be absent or empty
//   completion     {"prompt": "...", "completion": "..."}
//   ids            {"input_ids": [...], "labels": [...]}; a label is -100 or the id at its place; "labels" may be absent
// Other keys are ignored.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ida::data {

// Deepest nesting of objects and arrays that a record may have.
inline constexpr int kMaxRecordDepth = 64;

enum class RecordForm { kText, kConversation, kCompletion, kIds };

struct Message {
  std::string role;  // "system", "user", "assistant" or "tool"
  std::string content;
  bool operator==(const Message&) const = default;
};

struct Record {
  RecordForm form = RecordForm::kText;
  std::string text;                   // kText
  std::vector<Message> messages;      // kConversation
  std::string prompt;                 // kCompletion
  std::string completion;             // kCompletion
  std::vector<std::int32_t> ids;      // kIds
  std::vector<std::uint8_t> trained;  // kIds: one per id, 0 where the label is -100; empty: no labels were given
};

// Parses `line` (one JSON object, RFC 8259, UTF-8). `where` ("file:line") starts every message. Errors: kCorrupt for
// malformed JSON, a value of the wrong type, a key twice, nesting above kMaxRecordDepth, an unknown role, labels that
// contradict the ids; kUsage for a record of no form or of more than one, naming its keys.
Record parse_record(std::string_view line, std::string_view where);

}  // namespace ida::data

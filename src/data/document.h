// What a document holds once it is read: stretches of text, or ids.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat_template.h"
#include "data/source.h"

namespace ida::data {

enum class DocumentStatus { kText, kEmpty, kBinary, kUntrained };

// A document; views of its text live as long as the object.
class Document {
 public:
  // Reads and, for a .jsonl line, parses. Errors as parse_record; kRuntime when a file cannot be read.
  Document(const RawDocument& raw, const ChatTemplate& chat);

  DocumentStatus status() const { return status_; }  // never kUntrained
  RecordForm form() const { return record_.form; }
  // The whole text of the form kText.
  std::string_view text() const { return map_ ? view_ : std::string_view(record_.text); }
  // The text of the forms kConversation and kCompletion, in order.
  const std::vector<TextSegment>& segments() const { return segments_; }
  // The form kIds.
  const Record& record() const { return record_; }

 private:
  std::optional<MappedFile> map_;
  std::string_view view_;
  Record record_;
  std::vector<TextSegment> segments_;
  DocumentStatus status_ = DocumentStatus::kText;
};

// Calls `visit(text, source)` for every document that is neither empty nor binary, in order; conversations are written
// by the PlainChatTemplate. Errors (kUsage): a document that holds ids.
void for_each_document(const std::vector<Source>& sources,
                       const std::function<void(std::string_view text, std::int32_t source)>& visit);

}  // namespace ida::data

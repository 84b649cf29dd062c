#include "data/document.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ida::data {
namespace {

DocumentStatus status_of(std::string_view text) {
  if (text.empty()) return DocumentStatus::kEmpty;
  return std::memchr(text.data(), 0, text.size()) != nullptr ? DocumentStatus::kBinary : DocumentStatus::kText;
}

}  // namespace

Document::Document(const RawDocument& raw, const ChatTemplate& chat) {
  if (raw.commit_text) {
    record_.text = *raw.commit_text;
    status_ = status_of(record_.text);
    return;
  }
  if (raw.line == 0) {
    map_.emplace(raw.file->path);
    view_ = {reinterpret_cast<const char*>(map_->bytes().data()), map_->bytes().size()};
    status_ = status_of(view_);
    return;
  }
  record_ = parse_record(raw.line_text, raw.where());
  switch (record_.form) {
    case RecordForm::kText: break;
    case RecordForm::kIds: break;
    case RecordForm::kConversation: segments_ = chat.render(record_.messages); break;
    case RecordForm::kCompletion:
      segments_ = {{.text = record_.prompt}, {.text = record_.completion, .answer = true, .turn = 1, .ends_turn = true}};
      break;
  }
  const bool has_text = record_.form == RecordForm::kConversation ? !record_.messages.empty()
                                                                  : !record_.text.empty() || !record_.prompt.empty() ||
                                                                        !record_.completion.empty() || !record_.ids.empty();
  if (!has_text) status_ = DocumentStatus::kEmpty;
}

void for_each_document(const std::vector<Source>& sources,
                       const std::function<void(std::string_view text, std::int32_t source)>& visit) {
  const PlainChatTemplate chat;
  for (const Source& source : sources) {
    if (source.kind == SourceKind::kTokens) fail_usage("{}: holds token ids; expected text", source.path);
  }
  DocumentReader reader(sources);
  RawDocument raw;
  while (reader.next(raw)) {
    const Document document(raw, chat);
    if (document.status() != DocumentStatus::kText) continue;
    if (document.form() == RecordForm::kIds) fail_usage("{}: holds token ids; expected text", raw.where());
    if (document.form() == RecordForm::kText) {
      visit(document.text(), raw.source);
      continue;
    }
    std::string text;
    for (const TextSegment& segment : document.segments()) text += segment.text;
    visit(text, raw.source);
  }
}

}  // namespace ida::data

#include "data/encode_document.h"

#include <algorithm>

#include "base/error.h"

namespace ida::data {
namespace {

std::string_view name_of(LossMask mask) { return config::EnumNames<LossMask>::names[static_cast<std::size_t>(mask)]; }

void append_eos(const TokenEncoder& encoder, std::vector<std::int32_t>& ids) {
  const std::optional<std::int32_t> eos = encoder.eos_id();
  if (eos && (ids.empty() || ids.back() != *eos)) ids.push_back(*eos);
}

// BOS and EOS around a document that is not empty.
void add_ends(const TokenEncoder& encoder, std::vector<std::int32_t>& ids) {
  const std::optional<std::int32_t> bos = encoder.bos_id();
  if (bos && ids.front() != *bos) ids.insert(ids.begin(), *bos);
  append_eos(encoder, ids);
}

void encode_text(const RawDocument& raw, std::string_view text, const TokenEncoder& encoder, LossMask mask,
                 EncodedDocument& out) {
  if (mask != LossMask::kAll) {
    fail_usage(
        "{}: plain text has no answer to train on under data.mask = \"{}\"; give messages or prompt and completion, use "
        "\"all\", or build the text into a shard of its own",
        raw.where(), name_of(mask));
  }
  out.ids = encoder.encode(text);
  out.text_bytes = text.size();
  if (out.ids.empty()) {  // a normaliser can leave nothing of a text
    out.status = DocumentStatus::kEmpty;
    return;
  }
  add_ends(encoder, out.ids);
}

void encode_segments(const RawDocument& raw, const Document& document, const TokenEncoder& encoder, LossMask mask,
                     EncodedDocument& out) {
  const std::vector<TextSegment>& segments = document.segments();
  if (document.form() == RecordForm::kConversation && !encoder.eos_id())
    fail_usage("{}: a conversation needs a tokenizer with an EOS token, which ends every turn", raw.where());
  std::int64_t last_answer = -1;
  for (const TextSegment& segment : segments) {
    if (segment.answer) last_answer = segment.turn;
  }
  const auto is_trained = [&](const TextSegment& segment) {
    return mask == LossMask::kAll || (segment.answer && (mask == LossMask::kAssistant || segment.turn == last_answer));
  };
  const std::optional<std::int32_t> bos = encoder.bos_id();
  bool has_text = false;  // a normaliser can leave nothing of a text
  for (const TextSegment& segment : segments) {
    std::vector<std::int32_t> ids = segment.text.empty() ? std::vector<std::int32_t>() : encoder.encode(segment.text);
    has_text |= !ids.empty();
    if (segment.ends_turn) append_eos(encoder, ids);
    if (out.ids.empty() && bos && (ids.empty() || ids.front() != *bos)) {
      out.ids.push_back(*bos);
      out.trained.push_back(0);
    }
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.trained.insert(out.trained.end(), ids.size(), is_trained(segment) ? 1 : 0);
    out.text_bytes += segment.text.size();
  }
  if (!has_text) {
    out = {};
    out.status = DocumentStatus::kEmpty;
    return;
  }
  if (mask == LossMask::kAll) out.trained.clear();
}

void take_ids(const RawDocument& raw, const Record& record, const TokenEncoder& encoder, LossMask mask,
              EncodedDocument& out) {
  if (mask != LossMask::kAll && record.trained.empty()) {
    fail_usage(
        "{}: input_ids without labels have no answer to train on under data.mask = \"{}\"; add labels or use \"all\"",
        raw.where(), name_of(mask));
  }
  for (std::size_t i = 0; i < record.ids.size(); ++i) {
    if (record.ids[i] >= encoder.vocab_size()) {
      fail_corrupt("{}: input_ids[{}] is {}, outside the tokenizer's vocabulary of {}", raw.where(), i, record.ids[i],
                   encoder.vocab_size());
    }
  }
  out.ids = record.ids;
  out.trained = record.trained;
  out.text_bytes = encoder.text_bytes(record.ids);
}

// What lies between two EOS of a file of tokens, made a document as text is.
void take_tokens(const RawDocument& raw, const TokenEncoder& encoder, LossMask mask, EncodedDocument& out) {
  if (mask != LossMask::kAll)
    fail_usage("{}: tokens have no answer to train on under data.mask = \"{}\"; use \"all\"", raw.where(), name_of(mask));
  for (std::int64_t at = raw.token_begin; at < raw.token_end; ++at) {
    const std::int64_t id = raw.tokens->token(at);
    if (id >= encoder.vocab_size()) {
      fail_corrupt("{}: token {} has id {}, outside the tokenizer's vocabulary of {}", raw.file->path, at, id,
                   encoder.vocab_size());
    }
    out.ids.push_back(static_cast<std::int32_t>(id));
  }
  out.text_bytes = encoder.text_bytes(out.ids);
  add_ends(encoder, out.ids);
}

}  // namespace

EncodedDocument encode_document(const RawDocument& raw, const TokenEncoder& encoder, LossMask mask,
                                const ChatTemplate& chat) {
  EncodedDocument encoded;
  try {
    if (raw.tokens) {
      take_tokens(raw, encoder, mask, encoded);
      return encoded;
    }
    const Document document(raw, chat);
    encoded.status = document.status();
    if (encoded.status != DocumentStatus::kText) return encoded;
    switch (document.form()) {
      case RecordForm::kText: encode_text(raw, document.text(), encoder, mask, encoded); break;
      case RecordForm::kIds: take_ids(raw, document.record(), encoder, mask, encoded); break;
      case RecordForm::kConversation:
      case RecordForm::kCompletion: encode_segments(raw, document, encoder, mask, encoded); break;
    }
    // The first token of a document is never a target: nothing comes before it.
    const std::vector<std::uint8_t>& trained = encoded.trained;
    if (!trained.empty() && std::find(trained.begin() + 1, trained.end(), 1) == trained.end())
      encoded.status = DocumentStatus::kUntrained;
  } catch (...) {
    encoded.error = std::current_exception();
  }
  return encoded;
}

}  // namespace ida::data

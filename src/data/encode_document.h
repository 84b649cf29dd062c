// A document -> token ids and the loss mask.
//
// Text becomes [BOS] ids [EOS]: BOS when the tokenizer adds one, EOS when it has one, neither doubled where the text's
// own ids already have it there; so do the documents of a file of tokens. A turn of a conversation ends with EOS in the
// same way. The ids of a .jsonl record stay as they are.
#pragma once
#include <cstdint>
#include <exception>
#include <vector>

#include "config/enums.h"
#include "data/document.h"
#include "data/token_encoder.h"

namespace ida::data {

using config::LossMask;

struct EncodedDocument {
  DocumentStatus status = DocumentStatus::kText;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> trained;  // one per id, nonzero: may be a target; empty: all
  std::uint64_t text_bytes = 0;
  std::exception_ptr error;  // of reading or encoding; thrown in document order by the caller
};

// What may be a target: kAll, every token; kAssistant, the answers (the assistant's turns, a completion) with the EOS
// that ends them; kCompletion, the last answer alone. Labels given with ids hold under every mask.
// Errors (in the result): kUsage for text without a prompt, or ids without labels, under a mask other than kAll; kUsage
// for a conversation when the tokenizer has no EOS; kCorrupt for an id outside the vocabulary.
EncodedDocument encode_document(const RawDocument& raw, const TokenEncoder& encoder, LossMask mask,
                                const ChatTemplate& chat);

}  // namespace ida::data

// Training of a byte-level BPE tokenizer on a corpus.
//
// Words come from the pre-tokenizer; a word's symbols start as bytes. Until the vocabulary is full, the pair of
// neighbouring symbols with the highest count over all words (ties: the smaller pair of ids) becomes a new symbol.
// Ids: special tokens, then the 256 bytes in the order of their characters in the byte alphabet, then merges. The
// result equals the BpeTrainer of the `tokenizers` package with initial_alphabet = ByteLevel.alphabet() on the same
// documents. Source: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016).
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ida::text {

enum class WordPattern {
  kGpt2,    // ByteLevel's own
  kLlama3,  // up to three digits a word, signs with the line breaks after them
  kQwen2,   // as kLlama3 with single digits, text in NFC
};

struct BpeTrainerOptions {
  std::int64_t vocab_size = 8192;  // special tokens and bytes included; the result is smaller when merges run out
  std::int64_t min_frequency = 0;  // pairs seen less often do not merge
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  // the first one is the eos token
  WordPattern pattern = WordPattern::kGpt2;
  // Called now and then: words counted, then merges made, of how many; may be empty.
  std::function<void(std::string_view stage, std::int64_t done, std::int64_t total)> progress = {};
};

// Fails (kUsage) when vocab_size cannot hold the special tokens and the bytes. Special tokens written in the
// documents are ordinary text to the trainer.
Tokenizer train_byte_level_bpe(std::span<const std::string_view> documents, const BpeTrainerOptions& options);

}  // namespace ida::text

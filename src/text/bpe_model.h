// The BPE model of a tokenizer: words to ids.
//
// Two kinds. Byte level (GPT-2, Llama-3, Qwen): symbols start as bytes. Character level (SentencePiece style): symbols
// start as characters; one outside the vocabulary becomes its byte tokens `<0xNN>` under byte_fallback. In both, what
// the vocabulary cannot express is the unknown token where there is one, else nothing, as in the `tokenizers` package.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/join_filter.h"
#include "text/json_part.h"
#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace ida::text {

struct BpeOptions {
  bool byte_level = false;
  bool byte_fallback = false;
  bool fuse_unk = false;       // neighbouring unknown characters become one token
  bool ignore_merges = false;  // a word that is a token is that token
  std::string unk_token;       // empty: none
};

class BpeModel {
 public:
  BpeModel() = default;
  BpeModel(std::shared_ptr<const Vocabulary> vocabulary, const std::vector<MergeRule>& merges, BpeOptions options);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const BpeOptions& options() const { return options_; }

  // Appends the ids of one word: raw bytes of the text when byte_level. Invalid UTF-8 counts as characters of one
  // byte each.
  void encode_word(std::string_view word, std::vector<std::int32_t>& out) const;
  // The bytes a token stands for in byte-level text: its spelling read through the byte alphabet.
  const std::string& bytes_of(std::int32_t id) const { return token_bytes_[static_cast<std::size_t>(id)]; }

 private:
  void prepare_bytes();
  void prepare_characters(const std::vector<MergeRule>& merges);
  void encode_segment(std::string_view segment, std::vector<std::int32_t>& out) const;
  void encode_uncached(std::string_view segment, std::vector<std::int32_t>& ids) const;
  void merge_pieces(std::vector<std::int32_t>& ids) const;
  void append_bytes(std::string_view segment, std::vector<std::int32_t>& ids) const;
  void append_characters(std::string_view segment, std::vector<std::int32_t>& ids) const;
  bool append_byte_tokens(std::string_view character, std::vector<std::int32_t>& ids) const;
  std::int32_t whole_word(std::string_view word) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  MergeTable merges_;
  JoinFilter joins_;
  BpeOptions options_;
  std::uint32_t cache_owner_ = 0;  // unique in the process: names this model in the per-thread word caches
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<std::string> token_bytes_;
  StringMap<std::int32_t> id_of_bytes_;                  // byte level with ignore_merges
  std::unordered_map<char32_t, std::int32_t> char_ids_;  // tokens of one character
  std::int32_t unk_id_ = kNoToken;
  bool cut_before_metaspace_ = false;  // no merge joins "x" and U+2581, so words may be cut there
};

// Reads the object under "model". `byte_level` is the pre-tokenizer's. Types other than BPE, dropout and affixes are
// refused by name (kUsage); merges or tokens that contradict the vocabulary are kCorrupt.
BpeModel read_bpe_model(const JsonPart& json, bool byte_level);

}  // namespace ida::text

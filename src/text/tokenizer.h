// Text to token ids and back, as the `tokenizers` package does it for the same tokenizer.json.
//
// Models: byte-level BPE (GPT-2, SmolLM2, Llama-3, Qwen) and SentencePiece-style BPE with byte fallback (Llama-2,
// stories260K, Gemma). What a file asks for and this does not do is refused by name (kUsage); a file that contradicts
// itself is kCorrupt. Truncation and padding sections are ignored. Immutable: all const members may run on many
// threads at once.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ida::text {

struct TokenizerParts;

class Tokenizer {
 public:
  // A tokenizer.json, a tiktoken rank file (read with the Llama-3 pattern, ignore_merges and its 256 special tokens),
  // or a folder that holds tokenizer.json or tokenizer.model. A tokenizer_config.json beside it gives the names of the
  // bos, eos and pad tokens, add_bos_token, add_eos_token and further added tokens.
  static Tokenizer load(const std::filesystem::path& path);
  static Tokenizer from_json(std::string_view tokenizer_json);
  // `origin` starts error messages; an empty `config_json` means none.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view config_json, std::string_view origin);

  // Added tokens written in the text are always recognised. `add_special` puts around the text what the post-processor
  // (or add_bos_token, add_eos_token) asks for. Invalid UTF-8 is encoded byte by byte where the vocabulary has bytes.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special = false) const;
  // The exact bytes that byte-level ids stand for. Ids without a token, as in a padded vocabulary, give nothing.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  // Largest id + 1, added tokens included.
  std::int64_t vocab_size() const;
  // From tokenizer_config.json; else what the post-processor puts first (bos) or a well-known name.
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;
  std::optional<std::int32_t> pad_id() const;
  // encode(text, true) starts with bos_id().
  bool adds_bos() const;
  bool adds_eos() const;

  std::optional<std::int32_t> id_of(std::string_view token) const;
  // The token as the file spells it; nothing for an id without a token.
  std::optional<std::string> token_of(std::int64_t id) const;
  bool is_special(std::int64_t id) const;

  // The tokenizer.json it was read from, byte for byte (for a rank file, an equivalent one), and the
  // tokenizer_config.json (made up from the special tokens where there was none).
  const std::string& to_json() const;
  const std::string& config_json() const;
  // Writes both into an existing folder.
  void save(const std::filesystem::path& folder) const;

  // SHA-256 (hex) over everything that decides ids: the canonical tokenizer.json without truncation and padding, and
  // the resolved special tokens. Spelling of the file (blanks, key order) does not change it.
  const std::string& content_hash() const;

 private:
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

  void encode_stretch(std::string_view text, bool at_text_start, std::vector<std::int32_t>& ids) const;
  void encode_normalized(std::string_view text, bool at_text_start, std::vector<std::int32_t>& ids) const;

  std::shared_ptr<const TokenizerParts> parts_;
};

}  // namespace ida::text

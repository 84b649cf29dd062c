// What the data room needs of a tokenizer.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ida::data {

// encode() is called from several threads at once.
class TokenEncoder {
 public:
  virtual ~TokenEncoder() = default;
  // Ids of `text` alone, without BOS or EOS; every id is in [0, vocab_size()).
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // Bytes of the text that ids stand for.
  virtual std::uint64_t text_bytes(std::span<const std::int32_t> ids) const = 0;
  virtual std::int64_t vocab_size() const = 0;
  // Put before each document; set only when the tokenizer adds one.
  virtual std::optional<std::int32_t> bos_id() const = 0;
  // Put after each document.
  virtual std::optional<std::int32_t> eos_id() const = 0;
  // Changes whenever the ids of some text could change.
  virtual std::string content_hash() const = 0;
};

// Any tokenizer with encode, decode, vocab_size, bos_id, eos_id, adds_bos and content_hash; it must outlive the adapter.
template <typename Tokenizer>
class TokenizerEncoder final : public TokenEncoder {
 public:
  explicit TokenizerEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::vector<std::int32_t> encode(std::string_view text) const override { return tokenizer_.encode(text); }
  std::uint64_t text_bytes(std::span<const std::int32_t> ids) const override { return tokenizer_.decode(ids, true).size(); }
  std::int64_t vocab_size() const override { return tokenizer_.vocab_size(); }
  std::optional<std::int32_t> bos_id() const override { return tokenizer_.adds_bos() ? tokenizer_.bos_id() : std::nullopt; }
  std::optional<std::int32_t> eos_id() const override { return tokenizer_.eos_id(); }
  std::string content_hash() const override { return tokenizer_.content_hash(); }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace ida::data

// Decoders of a tokenizer.json: ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, Sequence.
// They turn the spellings of tokens back into text. Where the `tokenizers` package would print U+FFFD for bytes that
// are not UTF-8, the bytes themselves come out, so that byte-level text is restored exactly.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ida::text {

class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

class Decoder {
 public:
  Decoder() = default;
  // `json` is the value under "decoder" (null: none). Other types are refused by name (kUsage).
  Decoder(const nlohmann::json& json, std::string_view where);

  // The whole decoder is ByteLevel: tokens may be replaced by their bytes and joined.
  bool is_byte_level() const { return byte_level_only_; }
  // Without a decoder, tokens are joined by blanks.
  std::string decode(std::vector<std::string> tokens) const;

 private:
  std::vector<std::shared_ptr<const DecoderStep>> steps_;
  bool byte_level_only_ = false;
};

}  // namespace ida::text

// Normalizers of a tokenizer.json: NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip, Sequence.
// They act on one piece of text between added tokens; invalid UTF-8 passes through unchanged.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ida::text {

class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  virtual std::string apply(std::string_view text) const = 0;
};

class Normalizer {
 public:
  Normalizer() = default;
  // `json` is the value under "normalizer" (null: none). Other types are refused by name (kUsage).
  Normalizer(const nlohmann::json& json, std::string_view where);

  bool empty() const { return steps_.empty(); }
  std::string apply(std::string_view text) const;

 private:
  std::vector<std::shared_ptr<const NormalizerStep>> steps_;
};

}  // namespace ida::text

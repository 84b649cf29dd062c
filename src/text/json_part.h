// One object of a tokenizer.json while it is read: typed access by key, with errors that name the place.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ida::text {

class JsonPart {
 public:
  // `where` starts error messages, e.g. "tokenizer.json: pre_tokenizer". Not an object: kCorrupt.
  JsonPart(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }
  // The value under `key`; nullptr when absent or null.
  const nlohmann::json* find(std::string_view key) const;
  // Refuses (kUsage) any key outside `known`: it may mean something that this reader does not do.
  void allow_keys(std::initializer_list<std::string_view> known) const;

  bool flag(std::string_view key, bool fallback) const;
  std::int64_t integer(std::string_view key, std::int64_t fallback) const;
  std::string string(std::string_view key) const;  // kCorrupt when absent
  std::string string_or(std::string_view key, std::string_view fallback) const;
  JsonPart part(std::string_view key) const;                // kCorrupt when absent
  std::vector<JsonPart> parts(std::string_view key) const;  // an array of objects; kCorrupt when absent

  // "type" is none of those implemented: kUsage.
  [[noreturn]] void refuse_type() const;
  // Any other feature that is not implemented: kUsage.
  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void corrupt(std::string_view key, std::string_view expected) const;

 private:
  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace ida::text

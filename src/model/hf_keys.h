// Reading a JSON object of Hugging Face keys so that none is overlooked: every key that was not read must be in the
// table of harmless keys, or hold its neutral value. Internal to the model room.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ida::model {

class KeyReader {
 public:
  // `prefix` is put before key names in messages ("rope_scaling.").
  KeyReader(const nlohmann::json& object, std::string_view origin, std::string prefix = "");

  // Marks the key as read. nullptr when it is absent; a null value is returned as such.
  const nlohmann::json* take(const std::string& key);
  // Typed reads; nullopt when absent or null (is_null tells them apart). A wrong type is refused.
  std::optional<std::int64_t> take_int(const std::string& key);
  std::optional<double> take_real(const std::string& key);
  std::optional<bool> take_bool(const std::string& key);
  std::optional<std::string> take_string(const std::string& key);

  bool is_null(const std::string& key) const;
  // Like take_int, but an absent or null key is refused.
  std::int64_t require_int(const std::string& key);

  // Refuses the first key that was neither read nor known to change nothing.
  void refuse_unread() const;
  // Refuses any key that was not read, known or not: for nested objects.
  void refuse_every_unread() const;

  [[noreturn]] void refuse_value(const std::string& key, std::string_view expected) const;
  const std::string& origin() const { return origin_; }

 private:
  const nlohmann::json& object_;
  std::string origin_;
  std::string prefix_;
  std::set<std::string> read_;
};

}  // namespace ida::model

#include "text/json_part.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace ida::text {

JsonPart::JsonPart(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) fail_corrupt("{}: expected a JSON object, got {}", where_, json_excerpt(object));
}

const nlohmann::json* JsonPart::find(std::string_view key) const {
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

void JsonPart::allow_keys(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail_usage("{}: key `{}` is not supported", where_, printable_excerpt(key));
    }
  }
}

bool JsonPart::flag(std::string_view key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) corrupt(key, "true or false");
  return value->get<bool>();
}

std::int64_t JsonPart::integer(std::string_view key, std::int64_t fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number_integer()) corrupt(key, "an integer");
  return value->get<std::int64_t>();
}

std::string JsonPart::string(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr || !value->is_string()) corrupt(key, "a string");
  return value->get<std::string>();
}

std::string JsonPart::string_or(std::string_view key, std::string_view fallback) const {
  return find(key) == nullptr ? std::string(fallback) : string(key);
}

JsonPart JsonPart::part(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) corrupt(key, "an object");
  return JsonPart(*value, fmt::format("{}.{}", where_, key));
}

std::vector<JsonPart> JsonPart::parts(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr || !value->is_array()) corrupt(key, "an array of objects");
  std::vector<JsonPart> result;
  for (std::size_t i = 0; i < value->size(); ++i) {
    result.emplace_back((*value)[i], fmt::format("{}.{}[{}]", where_, key, i));
  }
  return result;
}

void JsonPart::refuse_type() const {
  fail_usage("{}: type `{}` is not supported", where_, printable_excerpt(string("type")));
}

void JsonPart::refuse(std::string_view what) const { fail_usage("{}: {} is not supported", where_, what); }

void JsonPart::corrupt(std::string_view key, std::string_view expected) const {
  const nlohmann::json* value = find(key);
  fail_corrupt("{}: key `{}`: expected {}, got {}", where_, key, expected,
               value == nullptr ? "nothing" : json_excerpt(*value));
}

}  // namespace ida::text

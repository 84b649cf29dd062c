// What rows of declarations are written with: access to a member without its type, and common ranges.
#pragma once
#include <string>
#include <type_traits>

#include "config/setting.h"

namespace ida::config {

template <typename T>
ValueRef make_ref(T& member) {
  if constexpr (std::is_enum_v<T>) {
    static_assert(std::is_same_v<std::underlying_type_t<T>, unsigned char>, "EnumRef writes an enum as its one byte");
    return EnumRef{reinterpret_cast<unsigned char*>(&member), EnumNames<T>::names};
  } else {
    return &member;
  }
}

template <typename Owner, typename Member>
Owner owner_of(Member Owner::*);

// The member reached from its owner by a chain of pointers to members.
template <auto kFirst, auto... kRest>
ValueRef at(void* owner) {
  using Owner = decltype(owner_of(kFirst));
  auto& first = static_cast<Owner*>(owner)->*kFirst;
  return make_ref((first.*....*kRest));
}

inline constexpr double kMaxCount = 1e15;  // exact as a double; sums of counts stay inside 64 bits
inline constexpr double kMaxSize = 1 << 24;
inline constexpr Range kSize = {.min = 1, .max = kMaxSize};
inline constexpr Range kCount = {.min = 0, .max = kMaxCount};
inline constexpr Range kCountFrom1 = {.min = 1, .max = kMaxCount};
inline constexpr Range kPositive = {.min = 0, .min_excluded = true};
inline constexpr Range kNotNegative = {.min = 0};
inline constexpr Range kFraction = {.min = 0, .max = 1};

inline std::string refuse_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

}  // namespace ida::config

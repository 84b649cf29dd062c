// Element types a safetensors file can name, in the format's own order (ascending alignment), which is also the order
// its writer sorts by. Source: safetensors 0.8, tensor.rs.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace ida::checkpoint {

enum class StoredDType : std::uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64
};

struct StoredDTypeInfo {
  std::string_view name;
  int bits;
};

inline constexpr std::array<StoredDTypeInfo, 22> kStoredDTypes = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

constexpr const StoredDTypeInfo& stored_dtype_info(StoredDType dtype) {
  return kStoredDTypes[static_cast<std::size_t>(dtype)];
}

constexpr std::optional<StoredDType> find_stored_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kStoredDTypes.size(); ++i) {
    if (kStoredDTypes[i].name == name) return static_cast<StoredDType>(i);
  }
  return std::nullopt;
}

constexpr StoredDType stored_dtype_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return StoredDType::kF32;
    case DType::kBF16: return StoredDType::kBF16;
    case DType::kF64: return StoredDType::kF64;
    case DType::kI32: return StoredDType::kI32;
    case DType::kI64: return StoredDType::kI64;
    case DType::kU8: return StoredDType::kU8;
  }
  return StoredDType::kU8;
}

static_assert(stored_dtype_info(StoredDType::kU64).name == "U64" && stored_dtype_info(StoredDType::kF16).name == "F16");

}  // namespace ida::checkpoint

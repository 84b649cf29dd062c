// Element types of tensors in memory. What a number format means lives in formats/; this is only its size and name.
#pragma once
#include <cstdint>
#include <string_view>

namespace ida {

enum class DType : std::uint8_t { kF32, kBF16, kF64, kI32, kI64, kU8 };

constexpr std::int64_t dtype_size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 4;
    case DType::kBF16: return 2;
    case DType::kF64: return 8;
    case DType::kI32: return 4;
    case DType::kI64: return 8;
    case DType::kU8: return 1;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kF64: return "f64";
    case DType::kI32: return "i32";
    case DType::kI64: return "i64";
    case DType::kU8: return "u8";
  }
  return "?";
}

}  // namespace ida

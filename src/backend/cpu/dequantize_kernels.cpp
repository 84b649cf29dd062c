#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"

namespace {

using namespace ida;
using Index = std::int64_t;

// Both values exist before one is chosen, without a branch.
inline std::uint32_t chosen(bool first, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(first);
  return (a & mask) | (b & ~mask);
}

// decode of formats/minifloat.h, with both forms of a code computed and one chosen.
template <typename F>
inline float decoded(std::uint32_t code) {
  constexpr int kSign = F::kExponentBits + F::kMantissaBits;
  constexpr std::uint32_t kInfinity = 0x7F800000u;
  constexpr float kStep = __builtin_bit_cast(float, static_cast<std::uint32_t>(128 - F::kBias - F::kMantissaBits) << 23);
  const std::uint32_t magnitude = code & ((1u << kSign) - 1u);
  const std::uint32_t normal = (magnitude << (23 - F::kMantissaBits)) + (static_cast<std::uint32_t>(127 - F::kBias) << 23);
  const float steps = static_cast<float>(static_cast<std::int32_t>(magnitude)) * kStep;
  std::uint32_t bits = chosen(magnitude < (1u << F::kMantissaBits), __builtin_bit_cast(std::uint32_t, steps), normal);
  bits = chosen(magnitude > F::kMaxCode, 0x7FC00000u, bits);
  if constexpr (F::kNanCode > F::kMaxCode + 1) bits = chosen(magnitude == F::kMaxCode + 1u, kInfinity, bits);
  return __builtin_bit_cast(float, bits | code >> kSign << 31);
}

inline void put(float* to, float x) { *to = x; }
inline void put(bf16* to, float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
  to->bits = static_cast<std::uint16_t>(chosen((bits & 0x7FFFFFFFu) > 0x7F800000u, bits | 0x400000u, rounded) >> 16);
}

template <typename F, typename T>
void whole_block(const std::uint8_t* codes, float scale, float tensor_scale, Index size, T* y) {
  for (Index i = 0; i < size; ++i) put(y + i, decoded<F>(codes[i]) * scale * tensor_scale);
}

template <typename F, typename T>
void dequantize_row(const cpu::DequantizeRow& row, T* y) {
  constexpr Index kPiece = 512;  // a multiple of every block but the row
  alignas(64) std::uint8_t unpacked[kPiece];
  for (Index at = 0; at < row.width; at += kPiece) {
    const Index size = row.width - at < kPiece ? row.width - at : kPiece;
    const std::uint8_t* codes = row.codes + at;
    if constexpr (F::kExponentBits == 2) {
      codes = unpacked;
      for (Index i = 0; i < (size + 1) / 2; ++i) {
        unpacked[2 * i] = row.codes[at / 2 + i] & 0xFu;
        unpacked[2 * i + 1] = static_cast<std::uint8_t>(row.codes[at / 2 + i] >> 4);
      }
    }
    const Index block = row.block < kPiece ? row.block : kPiece;
    for (Index c = 0; c < size; c += block) {
      const float scale = row.scales[(at + c) / row.block];
      if (block == 16 && size - c >= 16) {
        whole_block<F>(codes + c, scale, row.tensor_scale, 16, y + at + c);
      } else if (block == 32 && size - c >= 32) {
        whole_block<F>(codes + c, scale, row.tensor_scale, 32, y + at + c);
      } else {
        whole_block<F>(codes + c, scale, row.tensor_scale, size - c < block ? size - c : block, y + at + c);
      }
    }
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void dequantize(const DequantizeRow& row, DType dtype, void* y) {
  with_element_type(dtype, [&](auto type) {
    auto* to = static_cast<decltype(type)*>(y);
    switch (row.element) {
      case formats::Element::kE4m3: dequantize_row<formats::E4m3>(row, to); break;
      case formats::Element::kE5m2: dequantize_row<formats::E5m2>(row, to); break;
      case formats::Element::kE2m1: dequantize_row<formats::E2m1>(row, to); break;
    }
  });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

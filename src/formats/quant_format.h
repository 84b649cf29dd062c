// What a quantised matrix is: the element's format, how far a scale reaches, what the scale is made of, and the choices
// that a recipe makes. K is the dimension a product sums over; blocks lie along it.
// Sources: OCP Microscaling Formats v1.0 (mx*); NVIDIA, "Pretraining LLMs with NVFP4", 2509.25149 (nvfp4); DeepSeek-V3,
// 2412.19437 (fp8_block); Cook et al., "Four Over Six", 2512.02010.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/minifloat.h"

namespace ida::formats {

enum class Element : std::uint8_t { kE4m3, kE5m2, kE2m1 };

enum class ScaleGrid : std::uint8_t {
  kNone,      // not quantised
  kTensor,    // fp8_tensor: one f32
  kRow,       // fp8_row: one f32 a row
  kVec128,    // fp8_block of activations: one f32 for 1 x 128
  kBlock128,  // fp8_block of weights: one f32 for 128 x 128
  kMx32,      // mxfp8, mxfp4: ue8m0 for 32
  kNv16,      // nvfp4: e4m3 for 16, and one f32 for the tensor
};

enum class ScaleRule : std::uint8_t {
  kFloor,  // 2^(floor(log2 amax) - max exponent): large elements of a block may saturate
  kCeil    // the smallest power of two that saturates nothing
};
enum class Rounding : std::uint8_t { kNearest, kStochastic };
enum class Hadamard : std::uint8_t { kNone, kFixedSigns, kSeededSigns };

struct QuantFormat {
  ScaleGrid grid = ScaleGrid::kNone;
  Element element = Element::kE4m3;
  ScaleRule scale_rule = ScaleRule::kCeil;  // MX
  bool two_level = true;                    // NVFP4: with the tensor's f32 scale, else that is 1
  bool square_blocks = false;               // MX 32 x 32, NVFP4 16 x 16: a matrix and its transpose get the same values
  bool power_of_two_scale = false;          // f32 scales rounded up to a power of two
  bool four_over_six = false;               // NVFP4: a block may map its maximum to 4 instead of 6
  Rounding rounding = Rounding::kNearest;
  Hadamard hadamard = Hadamard::kNone;  // over 16 consecutive elements along K, before amax
  bool operator==(const QuantFormat&) const = default;
};

constexpr int element_bits(Element element) { return element == Element::kE2m1 ? 4 : 8; }
constexpr float element_max(Element element) {
  return element == Element::kE4m3 ? E4m3::kMax : element == Element::kE5m2 ? E5m2::kMax : E2m1::kMax;
}
constexpr int element_max_exponent(Element element) {
  return element == Element::kE4m3   ? E4m3::kMaxExponent
         : element == Element::kE5m2 ? E5m2::kMaxExponent
                                     : E2m1::kMaxExponent;
}

// Elements along K that share a scale; 0: all of them.
constexpr std::int64_t block_size(ScaleGrid grid) {
  switch (grid) {
    case ScaleGrid::kVec128:
    case ScaleGrid::kBlock128: return 128;
    case ScaleGrid::kMx32: return 32;
    case ScaleGrid::kNv16: return 16;
    default: return 0;
  }
}
// Rows that share a scale; 0: all of them.
constexpr std::int64_t block_rows(const QuantFormat& format) {
  if (format.grid == ScaleGrid::kTensor) return 0;
  if (format.grid == ScaleGrid::kBlock128) return 128;
  return format.square_blocks ? block_size(format.grid) : 1;
}
constexpr bool has_f32_scales(ScaleGrid grid) {
  return grid == ScaleGrid::kTensor || grid == ScaleGrid::kRow || grid == ScaleGrid::kVec128 ||
         grid == ScaleGrid::kBlock128;
}
// Whether a scale comes from the amax of the whole tensor.
constexpr bool needs_tensor_amax(const QuantFormat& format) {
  return format.grid == ScaleGrid::kTensor || (format.grid == ScaleGrid::kNv16 && format.two_level);
}

// "mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4", "fp8_tensor", "fp8_row", "fp8_vec128", "fp8_block128", and with "_e5m2".
std::string format_name(const QuantFormat& format);
// The format of a name with default choices; nothing where there is no such name.
std::optional<QuantFormat> format_of_name(std::string_view name);

// Sizes of a quantised [rows, k] matrix. Square blocks still store a scale for every row, equal within a block, so that a
// consumer need not know of them.
constexpr std::int64_t code_row_bytes(const QuantFormat& format, std::int64_t k) {
  return (k * element_bits(format.element) + 7) / 8;
}
constexpr std::int64_t scales_per_row(const QuantFormat& format, std::int64_t k) {
  const std::int64_t block = block_size(format.grid);
  return block == 0 ? 1 : (k + block - 1) / block;
}
constexpr std::int64_t scale_rows(const QuantFormat& format, std::int64_t rows) {
  if (format.grid == ScaleGrid::kTensor) return 1;
  return format.grid == ScaleGrid::kBlock128 ? (rows + 127) / 128 : rows;
}

}  // namespace ida::formats

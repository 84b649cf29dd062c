// Scales and codes of tiles, in the bits of formats/block_rules.h and formats/minifloat.h without a branch per element.
#include "backend/cpu/op_kernel_functions.h"

namespace {

using namespace ida;
using formats::E2m1;
using formats::E4m3;
using formats::E5m2;
using Index = std::int64_t;

constexpr std::uint32_t kMagnitude = 0x7FFFFFFFu;
constexpr std::uint32_t kInfinityBits = 0x7F800000u;

inline float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t as_bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline std::uint32_t smaller(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }
inline std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }
// Both values exist before one is chosen: a float operation that only one branch needs would stay a branch.
inline std::uint32_t chosen(bool first, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(first);
  return (a & mask) | (b & ~mask);
}

template <typename F>
constexpr int kDropped = 23 - F::kMantissaBits;
template <typename F>
constexpr int kSign = F::kExponentBits + F::kMantissaBits;
template <typename F>
constexpr std::uint32_t kMinNormal = static_cast<std::uint32_t>(128 - F::kBias) << 23;
template <typename F>
constexpr std::uint32_t kMaxBits = __builtin_bit_cast(std::uint32_t, F::kMax);

// Adding the power of two whose last place is x's step in the format rounds x to that step; what the sum is above that
// power counts steps from the start of x's binade, or from 0 below the smallest normal number.
template <typename F>
inline std::uint32_t nearest_code(std::uint32_t bits) {
  const std::uint32_t magnitude = smaller(bits & kMagnitude, kMaxBits<F>);
  const std::uint32_t binade = larger(magnitude & kInfinityBits, kMinNormal<F>);
  const std::uint32_t rounder = binade + (static_cast<std::uint32_t>(kDropped<F>) << 23);
  const std::uint32_t steps = as_bits(as_float(magnitude) + as_float(rounder)) - rounder;
  const std::uint32_t code = (steps + ((binade - kMinNormal<F>) >> kDropped<F>)) | bits >> 31 << kSign<F>;
  return (bits & kMagnitude) > kInfinityBits ? F::kNanCode : code;
}

template <typename F>
inline std::uint32_t drawn_code(std::uint32_t bits, std::uint16_t drawn) {
  const std::uint32_t random = static_cast<std::uint32_t>(drawn) << 16 | 0x8000u;
  const std::uint32_t magnitude = smaller(bits & kMagnitude, kMaxBits<F>);
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - F::kBias) << F::kMantissaBits;
  const std::uint32_t normal = ((magnitude + (random >> (32 - kDropped<F>))) >> kDropped<F>)-kRebias;
  constexpr float kSteps =
      __builtin_bit_cast(float, static_cast<std::uint32_t>(127 + F::kBias - 1 + F::kMantissaBits) << 23);
  const float steps = as_float(smaller(magnitude, kMinNormal<F>)) * kSteps;
  const auto whole = static_cast<std::int32_t>(steps);
  const float rest = steps - static_cast<float>(whole);
  const float place = static_cast<float>(static_cast<std::int32_t>(random >> 8)) * 0x1p-24f;
  // Neither is negative, so their bits order as they do.
  const std::uint32_t subnormal =
      static_cast<std::uint32_t>(whole) + static_cast<std::uint32_t>(as_bits(place) < as_bits(rest));
  const std::uint32_t code = chosen(magnitude < kMinNormal<F>, subnormal, normal) | bits >> 31 << kSign<F>;
  return chosen((bits & kMagnitude) > kInfinityBits, F::kNanCode, code);
}

inline std::uint32_t f32_bits(float x) { return as_bits(x); }
inline std::uint32_t f32_bits(std::uint16_t x) { return static_cast<std::uint32_t>(x) << 16; }

// ---- random bits ----

// random_block of formats/block_rules.h for consecutive groups of eight elements: `words` gets four a group, which lie in
// memory as the elements' 16 bits do.
void draw(const formats::RandomKey& key, std::uint64_t first_group, Index groups, std::uint32_t* words) {
  const std::uint64_t mixed = key.seed ^ (key.tensor * 0x9E3779B97F4A7C15u);
  for (Index g = 0; g < groups; ++g) {
    const std::uint64_t group = first_group + static_cast<std::uint64_t>(g);
    std::uint32_t k0 = static_cast<std::uint32_t>(mixed), k1 = static_cast<std::uint32_t>(mixed >> 32);
    std::uint32_t c0 = static_cast<std::uint32_t>(group), c1 = static_cast<std::uint32_t>(group >> 32);
    std::uint32_t c2 = static_cast<std::uint32_t>(key.step), c3 = static_cast<std::uint32_t>(key.step >> 32);
#pragma GCC unroll 7
    for (int round = 0; round < 7; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0;
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    words[4 * g] = c0;
    words[4 * g + 1] = c1;
    words[4 * g + 2] = c2;
    words[4 * g + 3] = c3;
  }
}

struct Draws {
  alignas(64) std::uint32_t words[(cpu::kTileWidth / 8 + 1) * 4];
  alignas(64) std::uint16_t halves[(cpu::kTileWidth / 8 + 1) * 8];
  // 16 bits an element, of `width` elements from `index`.
  const std::uint16_t* of(const formats::RandomKey& key, Index index, Index width) {
    const auto first = static_cast<std::uint64_t>(index);
    draw(key, first / 8, (index % 8 + width + 7) / 8, words);
    __builtin_memcpy(halves, words, sizeof(halves));
    return halves + index % 8;
  }
};

// ---- scales ----

inline float decoded_scale(std::uint8_t scale) {  // e4m3, of the magnitudes that are scales; above them NaN
  const std::uint32_t normal = (static_cast<std::uint32_t>(scale) << 20) + (120u << 23);
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(scale)) * 0x1p-9f;
  const std::uint32_t bits = chosen(scale < 8, as_bits(subnormal), normal);
  return as_float(chosen(scale == E4m3::kNanCode, 0x7FC00000u, bits));
}

inline bool has_codes(std::uint8_t scale) { return static_cast<std::uint8_t>(scale - 1) < E4m3::kNanCode - 1; }

constexpr Index kMaxBlocks = cpu::kTileWidth / 16;

// What an element is drawn from is x times this.
void encode_factors(const cpu::TileEncoding& e, const std::uint8_t* scales, Index blocks, float* factors) {
  if (e.format.grid == formats::ScaleGrid::kMx32) {
    for (Index b = 0; b < blocks; ++b) {
      const std::uint32_t scale = scales[b];
      const std::uint32_t bits = (254u - smaller(scale, 253u)) << 23;
      factors[b] = as_float(scale == formats::Ue8m0::kNanCode ? 0u : scale == 254u ? 0x00400000u : bits);
    }
    return;
  }
  constexpr std::uint32_t kLargest = 0x7F7FFFFFu;
  for (Index b = 0; b < blocks; ++b) {
    const std::uint32_t factor = as_bits(1.0f / (decoded_scale(scales[b]) * e.tensor_scale));
    factors[b] = as_float(chosen(has_codes(scales[b]), smaller(factor, kLargest), 0u));
  }
}

// ---- e2m1 to nearest: x itself is compared with the seven places where the code goes up ----

struct Thresholds {
  // Bits of the largest |x| below the place, a row a place.
  alignas(64) std::int32_t below[7][kMaxBlocks];
  // Sign bit of the codes of a block, or 0.
  alignas(64) std::uint8_t sign[kMaxBlocks];
};

// MX: the products are exact. Where the lower code is even the tie itself stays below.
void mx_thresholds(const std::uint8_t* scales, Index blocks, Thresholds& out) {
  constexpr float kTies[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  for (int i = 0; i < 7; ++i) {
    for (Index b = 0; b < blocks; ++b) {
      const std::uint32_t scale = scales[b];
      const float tie = kTies[i] * as_float(scale == 0 ? 0x00400000u : scale << 23);
      out.below[i][b] = static_cast<std::int32_t>(as_bits(tie) - (i % 2 == 0 ? 0u : 1u));
    }
  }
  for (Index b = 0; b < blocks; ++b) out.sign[b] = 8;
}

// NVFP4: f32(x / divisor) is above the code's lower end where x / divisor is above the middle between two f32 there. The
// middle has 25 bits and the divisor 28, so their product is exact in f64; x has 24 bits and never equals it, nor does the
// quotient in f64 round to the middle: it is 2^-53 of it away or more.
void nv_thresholds(const std::uint8_t* scales, Index blocks, float tensor_scale, Thresholds& out) {
  constexpr double kMiddles[7] = {0.25 + 0x1p-26, 0.75 - 0x1p-25, 1.25 + 0x1p-24, 1.75 - 0x1p-24,
                                  2.5 + 0x1p-23,  3.5 - 0x1p-23,  5.0 + 0x1p-22};
  alignas(64) double divisors[kMaxBlocks];
  for (Index b = 0; b < blocks; ++b)
    divisors[b] = static_cast<double>(decoded_scale(scales[b])) * static_cast<double>(tensor_scale);
  for (int i = 0; i < 7; ++i) {
    for (Index b = 0; b < blocks; ++b) {
      const double place = kMiddles[i] * divisors[b];
      const auto near = static_cast<float>(place);
      const std::uint32_t bits = as_bits(near) - static_cast<std::uint32_t>(static_cast<double>(near) > place);
      out.below[i][b] = static_cast<std::int32_t>(chosen(has_codes(scales[b]), bits, kMagnitude));
    }
  }
  for (Index b = 0; b < blocks; ++b) out.sign[b] = has_codes(scales[b]) ? 8 : 0;
}

template <typename T>
struct Lane;
template <>
struct Lane<float> {
  using Bits = std::uint32_t;
  using Signed = std::int32_t;
};
template <>
struct Lane<std::uint16_t> {
  using Bits = std::uint16_t;
  using Signed = std::int16_t;
};

template <Index kBlock, typename T>
void compare_block(const T* x, const Thresholds& t, Index b, std::uint8_t* codes) {
  using Bits = typename Lane<T>::Bits;
  using Signed = typename Lane<T>::Signed;
  constexpr int kWidth = 8 * sizeof(T);
  constexpr auto kMagnitudeBits = static_cast<Bits>((std::uint64_t{1} << (kWidth - 1)) - 1);
  Signed below[7];
  for (int i = 0; i < 7; ++i) below[i] = static_cast<Signed>(t.below[i][b] >> (32 - kWidth));
  const auto sign = static_cast<Bits>(t.sign[b]);
  for (Index j = 0; j < kBlock; ++j) {
    const Bits bits = __builtin_bit_cast(Bits, x[j]);
    const auto m = static_cast<Signed>(bits & kMagnitudeBits);
    Signed code = 0;
    for (int i = 0; i < 7; ++i) code = static_cast<Signed>(code + (m > below[i] ? 1 : 0));
    codes[j] = static_cast<std::uint8_t>(static_cast<Bits>(code) | (static_cast<Bits>(bits >> (kWidth - 4)) & sign));
  }
}

// The NaN scale of MX: zeros with their signs, and the largest code for what is not finite beside infinity times 0.
template <typename T>
void nan_block(const T* x, Index size, std::uint8_t* codes) {
  for (Index j = 0; j < size; ++j) {
    const std::uint32_t bits = f32_bits(x[j]);
    codes[j] = static_cast<std::uint8_t>((bits & kMagnitude) >= kInfinityBits ? E2m1::kNanCode : bits >> 31 << 3);
  }
}

template <typename T>
void compare_row(const cpu::TileEncoding& e, const T* x, const std::uint8_t* scales, Index blocks, std::uint8_t* codes) {
  Thresholds thresholds;
  if (e.block == 16) {
    nv_thresholds(scales, blocks, e.tensor_scale, thresholds);
    for (Index b = 0; b < blocks; ++b) compare_block<16>(x + 16 * b, thresholds, b, codes + 16 * b);
    return;
  }
  mx_thresholds(scales, blocks, thresholds);
  for (Index b = 0; b < blocks; ++b) {
    if (scales[b] == formats::Ue8m0::kNanCode) {
      nan_block(x + 32 * b, 32, codes + 32 * b);
    } else {
      compare_block<32>(x + 32 * b, thresholds, b, codes + 32 * b);
    }
  }
}

// ---- rows of a tile ----

// Calls body(i) for [0, size), a multiple of 16, in loops of a known length, which the compiler makes whole vectors of.
template <typename Body>
inline void for_elements(Index size, Body&& body) {
  Index j = 0;
  for (; j + 64 <= size; j += 64)
    for (Index i = j; i < j + 64; ++i) body(i);
  for (; j + 32 <= size; j += 32)
    for (Index i = j; i < j + 32; ++i) body(i);
  for (; j < size; j += 16)
    for (Index i = j; i < j + 16; ++i) body(i);
}

template <typename F, typename T>
void nearest_block(const T* x, float factor, Index size, std::uint8_t* __restrict codes) {
  for_elements(size, [&](Index i) {
    codes[i] = static_cast<std::uint8_t>(nearest_code<F>(as_bits(as_float(f32_bits(x[i])) * factor)));
  });
}
template <typename F, typename T>
void drawn_block(const T* x, float factor, Index size, const std::uint16_t* random, std::uint8_t* __restrict codes) {
  for_elements(size, [&](Index i) {
    codes[i] = static_cast<std::uint8_t>(drawn_code<F>(as_bits(as_float(f32_bits(x[i])) * factor), random[i]));
  });
}

void pack(const std::uint8_t* codes, Index width, std::uint8_t* bytes) {
  for (Index i = 0; i < width / 2; ++i) bytes[i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

template <typename F, typename T>
void encode_rows(const cpu::Tile& tile, const cpu::TileEncoding& e) {
  constexpr bool kPacked = F::kExponentBits == 2;
  const bool drawn = e.format.rounding == formats::Rounding::kStochastic;
  const bool nv = e.format.grid == formats::ScaleGrid::kNv16;
  const Index blocks = tile.width / e.block;
  Draws draws = {};
  alignas(64) std::uint8_t unpacked[cpu::kTileWidth];
  alignas(64) float block_factors[kMaxBlocks];
  for (Index r = 0; r < tile.rows; ++r) {
    const T* x = static_cast<const T*>(tile.values) + r * tile.stride;
    const std::uint8_t* scales = e.scales + (e.factors == nullptr ? r * blocks : 0);
    std::uint8_t* bytes = e.codes + r * e.codes_stride;
    std::uint8_t* codes = kPacked ? unpacked : bytes;
    const float* factors = e.factors == nullptr ? block_factors : e.factors + r * blocks;
    if (kPacked && !drawn) {
      compare_row(e, x, scales, blocks, codes);
    } else {
      if (e.factors == nullptr) encode_factors(e, scales, blocks, block_factors);
      const std::uint16_t* random = drawn ? draws.of(e.key, e.first_index + r * e.row_indices, tile.width) : nullptr;
      for (Index b = 0; b < blocks; ++b) {
        const Index at = b * e.block;
        if (nv && !has_codes(scales[b])) {
          __builtin_memset(codes + at, 0, static_cast<std::size_t>(e.block));
        } else if (drawn) {
          drawn_block<F>(x + at, factors[b], e.block, random + at, codes + at);
        } else {
          nearest_block<F>(x + at, factors[b], e.block, codes + at);
        }
      }
    }
    if constexpr (kPacked) pack(codes, tile.width, bytes);
  }
}

template <typename F>
void encode_tile(const cpu::Tile& tile, const cpu::TileEncoding& e) {
  if (tile.dtype == DType::kBF16) {
    encode_rows<F, std::uint16_t>(tile, e);
  } else {
    encode_rows<F, float>(tile, e);
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

// mx_scale of formats/block_rules.h; a subnormal amax has byte 0 whatever its binade.
void quantize_mx_scales(const std::uint32_t* amax, Index size, const formats::QuantFormat& format, std::uint8_t* scales) {
  const bool e2m1 = format.element == formats::Element::kE2m1;
  const bool e4m3 = format.element == formats::Element::kE4m3;
  const std::uint32_t max = e2m1 ? kMaxBits<E2m1> : e4m3 ? kMaxBits<E4m3> : kMaxBits<E5m2>;
  const auto max_exponent = static_cast<std::int32_t>(max >> 23) - 127;
  // Adding what lies between the largest mantissa and the next power of two carries where the scale has to be larger.
  const std::uint32_t carry = format.scale_rule == formats::ScaleRule::kCeil ? 0x7FFFFFu - (max & 0x7FFFFFu) : 0u;
  for (Index i = 0; i < size; ++i) {
    const std::int32_t e = static_cast<std::int32_t>((amax[i] + carry) >> 23) - max_exponent;
    const std::int32_t byte = e > 0 ? e : 0;
    scales[i] = static_cast<std::uint8_t>(amax[i] < kInfinityBits ? byte : formats::Ue8m0::kNanCode);
  }
}

// nvfp4_block_scale of formats/block_rules.h, with largest element 6.
void quantize_nv_scales(const std::uint32_t* amax, Index size, float tensor_scale, std::uint8_t* scales) {
  const std::uint32_t bits = as_bits(tensor_scale) & kMagnitude;
  if (bits >= kInfinityBits || bits == 0) {
    for (Index i = 0; i < size; ++i) scales[i] = bits != 0 || amax[i] >= kInfinityBits ? E4m3::kNanCode : std::uint8_t{0};
    return;
  }
  for (Index i = 0; i < size; ++i) {
    const double scale = static_cast<double>(as_float(amax[i])) / 6.0 / static_cast<double>(tensor_scale);
    const std::uint32_t code = nearest_code<E4m3>(as_bits(static_cast<float>(scale)));
    scales[i] = static_cast<std::uint8_t>(chosen(amax[i] < kInfinityBits, code, E4m3::kNanCode));
  }
}

void quantize_encode(const Tile& tile, const TileEncoding& encoding) {
  switch (encoding.format.element) {
    case formats::Element::kE4m3: encode_tile<E4m3>(tile, encoding); break;
    case formats::Element::kE5m2: encode_tile<E5m2>(tile, encoding); break;
    case formats::Element::kE2m1: encode_tile<E2m1>(tile, encoding); break;
  }
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

// Tiles for quantisation: read or transposed, transformed, and the largest magnitudes of their blocks.
#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"

namespace {

using namespace ida;
using Index = std::int64_t;
using cpu::kTileStride;

using U16x8 __attribute__((vector_size(16))) = std::uint16_t;
using I16x8 __attribute__((vector_size(16))) = std::int16_t;
using F32x4 __attribute__((vector_size(16))) = float;
using I32x4 __attribute__((vector_size(16))) = std::int32_t;
using U16x4 __attribute__((vector_size(8))) = std::uint16_t;
using U32x4 __attribute__((vector_size(16))) = std::uint32_t;

inline U16x8 low_pairs(U16x8 a, U16x8 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
inline U16x8 high_pairs(U16x8 a, U16x8 b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
inline I16x8 low_pairs(I16x8 a, I16x8 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
inline I16x8 high_pairs(I16x8 a, I16x8 b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
inline F32x4 low_pairs(F32x4 a, F32x4 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline F32x4 high_pairs(F32x4 a, F32x4 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
inline I32x4 low_pairs(I32x4 a, I32x4 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline I32x4 high_pairs(I32x4 a, I32x4 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }

template <typename V, typename T>
inline V load_vector(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

// ---- reading ----

inline std::uint16_t raw(bf16 x) { return x.bits; }
inline float widened(float x) { return x; }
inline float widened(bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }

// One element of x as the tile keeps it: bf16 as it is (nothing to multiply), or f32 times the factor.
inline void put(std::uint16_t* to, bf16 x, float) { *to = raw(x); }
template <typename From>
inline void put(float* to, From x, float factor) {
  *to = widened(x) * factor;
}

inline U16x8 load_lanes(const bf16* from, float, std::uint16_t) { return load_vector<U16x8>(from); }
inline F32x4 load_lanes(const float* from, float factor, float) { return load_vector<F32x4>(from) * factor; }
inline F32x4 load_lanes(const bf16* from, float factor, float) {
  const U32x4 bits = __builtin_convertvector(load_vector<U16x4>(from), U32x4) << 16;
  return reinterpret_cast<F32x4>(bits) * factor;
}

// A square of as many rows as a vector has lanes. Each round interleaves row i with row i + half; log2(lanes) rounds
// transpose.
template <typename To, typename From>
inline void transpose_square(const From* from, Index from_stride, To* to, Index to_stride, float factor) {
  constexpr int kLanes = 16 / sizeof(To);
  using V = decltype(load_lanes(from, factor, To{}));
  V a[kLanes], b[kLanes];
  for (int i = 0; i < kLanes; ++i) a[i] = load_lanes(from + i * from_stride, factor, To{});
  for (int round = 1; round < kLanes; round *= 2) {
    for (int i = 0; i < kLanes / 2; ++i) {
      b[2 * i] = low_pairs(a[i], a[i + kLanes / 2]);
      b[2 * i + 1] = high_pairs(a[i], a[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kLanes; ++i) __builtin_memcpy(to + i * to_stride, &a[i], sizeof(V));
}

template <typename To, typename From>
void read_transposed(const cpu::TileSource& s, To* tile) {
  constexpr Index kLanes = 16 / sizeof(To);
  const Index whole_rows = s.rows / kLanes * kLanes;
  const Index whole_width = s.width / kLanes * kLanes;
  for (Index c = 0; c < s.width; ++c) {
    const From* from = row_of<const From>(s.x, s.col + c) + s.row;
    const bool whole = c < whole_width;
    if (whole && c % kLanes == 0) {
      for (Index r = 0; r < whole_rows; r += kLanes)
        transpose_square(from + r, s.x.row_stride, tile + r * kTileStride + c, kTileStride, s.factor);
    }
    for (Index r = whole ? whole_rows : 0; r < s.rows; ++r) put(tile + r * kTileStride + c, from[r], s.factor);
  }
}

template <typename To, typename From>
void read_rows(const cpu::TileSource& s, To* tile) {
  for (Index r = 0; r < s.rows; ++r) {
    const From* from = row_of<const From>(s.x, s.row + r) + s.col;
    To* to = tile + r * kTileStride;
    for (Index c = 0; c < s.width; ++c) put(to + c, from[c], s.factor);
  }
}

// hadamard16 of formats/block_rules.h: a - b of its upper lanes is a + (-b), the same bits.
inline void hadamard16(float* x, const I32x4* signs) {
  constexpr std::int32_t kSign = static_cast<std::int32_t>(0x80000000u);
  constexpr I32x4 kOdd = {0, kSign, 0, kSign};
  constexpr I32x4 kUpper = {0, 0, kSign, kSign};
  const auto flipped = [](F32x4 v, I32x4 mask) { return reinterpret_cast<F32x4>(reinterpret_cast<I32x4>(v) ^ mask); };
  F32x4 v[4];
  for (int i = 0; i < 4; ++i) {
    v[i] = flipped(load_vector<F32x4>(x + 4 * i), signs[i]);
    v[i] = __builtin_shufflevector(v[i], v[i], 1, 0, 3, 2) + flipped(v[i], kOdd);
    v[i] = __builtin_shufflevector(v[i], v[i], 2, 3, 0, 1) + flipped(v[i], kUpper);
  }
  const F32x4 a = v[0] + v[1], b = v[0] - v[1], c = v[2] + v[3], d = v[2] - v[3];
  const F32x4 out[4] = {(a + c) * 0.25f, (b + d) * 0.25f, (a - c) * 0.25f, (b - d) * 0.25f};
  __builtin_memcpy(x, out, sizeof(out));
}

void transform(const cpu::TileSource& s, float* tile) {
  I32x4 signs[4];
  for (int i = 0; i < 16; ++i) signs[i / 4][i % 4] = static_cast<std::int32_t>((s.signs >> i & 1u) << 31);
  for (Index r = 0; r < s.rows; ++r)
    for (Index c = 0; c < s.width; c += 16) hadamard16(tile + r * kTileStride + c, signs);
}

template <typename To, typename From>
void read(const cpu::TileSource& s, To* tile) {
  if (s.transposed) {
    read_transposed<To, From>(s, tile);
  } else {
    read_rows<To, From>(s, tile);
  }
  for (Index r = 0; r < s.rows && s.width < s.padded_width; ++r) {
    __builtin_memset(tile + r * kTileStride + s.width, 0, static_cast<std::size_t>(s.padded_width - s.width) * sizeof(To));
  }
}

// ---- largest magnitudes ----

// Magnitudes as signed integers of their width: all positive, and every instruction set compares signed ones.
inline I16x8 magnitudes(const std::uint16_t* x) { return reinterpret_cast<I16x8>(load_vector<U16x8>(x) & 0x7FFFu); }
inline I32x4 magnitudes(const float* x) { return load_vector<I32x4>(x) & 0x7FFFFFFF; }
template <typename V>
inline V larger(V a, V b) {
  return a > b ? a : b;
}
inline std::uint32_t amax_bits(std::int16_t m) { return static_cast<std::uint32_t>(static_cast<std::uint16_t>(m)) << 16; }
inline std::uint32_t amax_bits(std::int32_t m) { return static_cast<std::uint32_t>(m); }

// Lanes of one block; `size` is a multiple of 16.
template <typename T>
inline auto folded(const T* x, Index size) {
  constexpr Index kLanes = 16 / sizeof(T);
  auto a = magnitudes(x), b = magnitudes(x + kLanes);
  Index i = 2 * kLanes;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    a = larger(a, larger(magnitudes(x + i), magnitudes(x + i + kLanes)));
    b = larger(b, larger(magnitudes(x + i + 2 * kLanes), magnitudes(x + i + 3 * kLanes)));
  }
  for (; i < size; i += kLanes) a = larger(a, magnitudes(x + i));
  return larger(a, b);
}

// As many blocks as a vector has lanes: interleaved pairwise until lane i is block i.
template <typename V, int kLanes>
inline V reduced(V (&v)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] = larger(low_pairs(v[i], v[i + half]), high_pairs(v[i], v[i + half]));
  return v[0];
}

template <typename T, Index kBlock>
void block_amax(const T* x, Index blocks, Index any_block, std::uint32_t* amax) {
  constexpr int kLanes = 16 / sizeof(T);
  const Index block = kBlock == 0 ? any_block : kBlock;
  Index b = 0;
  for (; b + kLanes <= blocks; b += kLanes) {
    decltype(magnitudes(x)) v[kLanes];
    for (int i = 0; i < kLanes; ++i) v[i] = folded(x + (b + i) * block, block);
    const auto largest = reduced(v);
    for (int i = 0; i < kLanes; ++i) amax[b + i] = amax_bits(largest[i]);
  }
  for (; b < blocks; ++b) {
    const auto v = folded(x + b * block, block);
    auto largest = v[0];
    for (int i = 1; i < kLanes; ++i) largest = v[i] > largest ? v[i] : largest;
    amax[b] = amax_bits(largest);
  }
}

template <typename T>
void tile_amax(const cpu::Tile& tile, Index block, std::uint32_t* amax) {
  const Index blocks = tile.width / block;
  for (Index r = 0; r < tile.rows; ++r) {
    const T* x = static_cast<const T*>(tile.values) + r * tile.stride;
    if (block == 16) {
      block_amax<T, 16>(x, blocks, block, amax + r * blocks);
    } else if (block == 32) {
      block_amax<T, 32>(x, blocks, block, amax + r * blocks);
    } else {
      block_amax<T, 0>(x, blocks, block, amax + r * blocks);
    }
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void quantize_read(const TileSource& source, DType tile_dtype, void* tile) {
  if (tile_dtype == DType::kBF16) {
    read<std::uint16_t, bf16>(source, static_cast<std::uint16_t*>(tile));
    return;
  }
  auto* values = static_cast<float*>(tile);
  with_element_type(source.x.dtype, [&](auto type) { read<float, decltype(type)>(source, values); });
  if (source.hadamard) transform(source, values);
}

void quantize_amax(const Tile& tile, Index block, std::uint32_t* amax) {
  if (tile.dtype == DType::kBF16) {
    tile_amax<std::uint16_t>(tile, block, amax);
  } else {
    tile_amax<float>(tile, block, amax);
  }
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

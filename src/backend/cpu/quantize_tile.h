// What the vector form of quantisation hands to its kernels: tiles of a matrix as it is quantised, x or its transpose.
#pragma once
#include "base/tensor.h"
#include "formats/block_rules.h"
#include "formats/quant_format.h"

namespace ida::cpu {

// bf16 of a tile fits an L1 cache. 32 columns of bf16 are a cache line, so a transposing read uses all that it fetches.
inline constexpr std::int64_t kTileRows = 32;
inline constexpr std::int64_t kTileWidth = 512;
inline constexpr std::int64_t kTileStride = kTileWidth + 32;  // not a power of two: its rows fall into different cache sets

// `rows` rows from `row` and `width` elements from `col` of x, or of its transpose.
struct TileSource {
  const TensorView& x;
  bool transposed = false;
  std::int64_t row = 0, rows = 0, col = 0, width = 0;
  std::int64_t padded_width = 0;  // zeros follow up to here
  float factor = 1.0f;
  bool hadamard = false;  // these two: f32 tiles alone
  std::uint16_t signs = 0;
};

// Values of a tile, f32 or bf16; `width` is a multiple of the blocks that are cut from it.
struct Tile {
  const void* values = nullptr;
  DType dtype = DType::kF32;
  std::int64_t stride = 0, rows = 0, width = 0;
};

// How a tile becomes codes. The scale of block b of row r is at r * (width / block) + b.
struct TileEncoding {
  formats::QuantFormat format = {};
  std::int64_t block = 0;
  const std::uint8_t* scales = nullptr;  // MX, NVFP4
  const float* factors = nullptr;        // the others: what an element is multiplied with
  float tensor_scale = 1.0f;             // NVFP4
  formats::RandomKey key = {};
  std::int64_t first_index = 0, row_indices = 0;  // of the random bits: of the tile's first element, from row to row
  std::uint8_t* codes = nullptr;                  // whole blocks are written
  std::int64_t codes_stride = 0;
};

// A row of codes and the scale of each of its blocks.
struct DequantizeRow {
  formats::Element element = formats::Element::kE4m3;
  const std::uint8_t* codes = nullptr;
  const float* scales = nullptr;
  std::int64_t block = 0, width = 0;
  float tensor_scale = 1.0f;
};

}  // namespace ida::cpu

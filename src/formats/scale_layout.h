// Where a scale lies. kRows: [rows, scales_per_row], row-major. kProduct: as matrix units and cuBLASLt read it; bytes of MX
// and NVFP4 in tiles of 128 rows by 4 scales, 512 bytes each, tiles row-major, padding zero.
// Source: cuBLAS 13 documentation, "1D block scaling factors layout".
#pragma once
#include <cstdint>

namespace ida::formats {

enum class ScaleLayout : std::uint8_t { kRows, kProduct };

inline constexpr std::int64_t kScaleTileRows = 128;
inline constexpr std::int64_t kScaleTileCols = 4;

constexpr std::int64_t tiled_scale_bytes(std::int64_t rows, std::int64_t scales_per_row) {
  return (rows + 127) / 128 * 128 * ((scales_per_row + 3) / 4 * 4);
}

// Byte of scale `col` of row `row` of a matrix with `scales_per_row` scales a row.
constexpr std::int64_t tiled_scale_offset(std::int64_t row, std::int64_t col, std::int64_t scales_per_row) {
  const std::int64_t tiles_per_row = (scales_per_row + 3) / 4;
  const std::int64_t o = row % 128;
  return 512 * (row / 128 * tiles_per_row + col / 4) + o % 32 * 16 + o / 32 * 4 + col % 4;
}

struct ScalePlace {
  std::int64_t row = 0;
  std::int64_t col = 0;
  bool operator==(const ScalePlace&) const = default;
};
constexpr ScalePlace tiled_scale_place(std::int64_t offset, std::int64_t scales_per_row) {
  const std::int64_t tiles_per_row = (scales_per_row + 3) / 4;
  const std::int64_t tile = offset / 512;
  const std::int64_t within = offset % 512;
  return {.row = tile / tiles_per_row * 128 + within % 16 / 4 * 32 + within / 16,
          .col = tile % tiles_per_row * 4 + within % 4};
}

}  // namespace ida::formats

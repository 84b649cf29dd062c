#include "formats/scale_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace ida::formats {
namespace {

TEST(TiledScales, EveryByteHasOnePlace) {
  for (const auto& [rows, per_row] : {std::pair<std::int64_t, std::int64_t>{128, 4}, {256, 8}, {384, 12}, {128, 64}}) {
    std::vector<int> seen(static_cast<std::size_t>(tiled_scale_bytes(rows, per_row)));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < per_row; ++col) {
        const std::int64_t offset = tiled_scale_offset(row, col, per_row);
        ++seen.at(static_cast<std::size_t>(offset));
        EXPECT_EQ(tiled_scale_place(offset, per_row), (ScalePlace{row, col}));
      }
    }
    for (const int count : seen) EXPECT_EQ(count, 1);
  }
}

// Worked by hand from the library's documentation: within a tile, rows 0, 32, 64, 96 share 16 bytes.
TEST(TiledScales, PlacesOfTheDocumentation) {
  EXPECT_EQ(tiled_scale_offset(0, 0, 4), 0);
  EXPECT_EQ(tiled_scale_offset(0, 3, 4), 3);
  EXPECT_EQ(tiled_scale_offset(1, 0, 4), 16);
  EXPECT_EQ(tiled_scale_offset(32, 0, 4), 4);
  EXPECT_EQ(tiled_scale_offset(96, 2, 4), 14);
  EXPECT_EQ(tiled_scale_offset(31, 0, 4), 496);
  EXPECT_EQ(tiled_scale_offset(0, 4, 8), 512) << "tiles of a row follow each other";
  EXPECT_EQ(tiled_scale_offset(128, 0, 8), 1024) << "then the next 128 rows";
}

TEST(TiledScales, PaddedSizes) {
  EXPECT_EQ(tiled_scale_bytes(1, 1), 512);
  EXPECT_EQ(tiled_scale_bytes(128, 4), 512);
  EXPECT_EQ(tiled_scale_bytes(129, 5), 2048);
}

}  // namespace
}  // namespace ida::formats

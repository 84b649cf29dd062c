// The index maps of mma and ldmatrix, and the permuted layout of tiles in shared memory.
#include "backend/cuda/device/fragment_maps.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace ida::cuda {
namespace {

TEST(FragmentMaps, EveryElementOfAnMmaOperandHasOnePlace) {
  std::set<std::pair<int, int>> a, b, c;
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {
      for (int e = 0; e < 2; ++e) {
        const MatrixIndex at = mma_a_index(lane, reg, e);
        a.insert({at.row, at.col});
        if (reg < 2) b.insert({mma_b_index(lane, reg, e).row, mma_b_index(lane, reg, e).col});
      }
      c.insert({mma_c_index(lane, reg).row, mma_c_index(lane, reg).col});
    }
  }
  EXPECT_EQ(a.size(), 16u * 16u);
  EXPECT_EQ(b.size(), 16u * 8u);
  EXPECT_EQ(c.size(), 16u * 8u);
  EXPECT_EQ(std::get<0>(*a.rbegin()), 15);
  EXPECT_EQ(std::get<0>(*b.rbegin()), 15);
}

// The formulas of the PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": a_i by i = 2 * register +
// element, b_i likewise, c_i by register.
TEST(FragmentMaps, MmaElementsAreWhereThePtxIsaPutsThem) {
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const MatrixIndex at = mma_a_index(lane, i / 2, i % 2);
      EXPECT_EQ(at.row, (i < 2 || (i >= 4 && i < 6)) ? group : group + 8);
      EXPECT_EQ(at.col, i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8);
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(mma_b_index(lane, i / 2, i % 2).row, i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8);
      EXPECT_EQ(mma_b_index(lane, i / 2, i % 2).col, group);
      EXPECT_EQ(mma_c_index(lane, i).row, i < 2 ? group : group + 8);
      EXPECT_EQ(mma_c_index(lane, i).col, in_group * 2 + (i & 1));
    }
  }
}

// Where in the 16 x 16 block the element comes from that ldmatrix.x4 puts into (lane, reg, element).
template <typename RowOfLane>
MatrixIndex loaded_from(RowOfLane row_of_lane, bool transposed, int lane, int reg, int element) {
  const MatrixIndex in_matrix = ldmatrix_element(lane, element);
  const int row = transposed ? in_matrix.col : in_matrix.row;
  const int col = transposed ? in_matrix.row : in_matrix.col;
  const MatrixIndex start = row_of_lane(reg * 8 + row);
  return {start.row, start.col + col};
}

TEST(FragmentMaps, LdmatrixFillsTheFragmentsOfMma) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {
      for (int e = 0; e < 2; ++e) {
        const MatrixIndex a = loaded_from(ldmatrix_row_major, false, lane, reg, e);
        EXPECT_EQ(a.row, mma_a_index(lane, reg, e).row);
        EXPECT_EQ(a.col, mma_a_index(lane, reg, e).col);
        // Registers 0, 1 are B of columns n, registers 2, 3 of n + 8.
        const MatrixIndex b = mma_b_index(lane, reg % 2, e);
        const MatrixIndex from_nk = loaded_from(ldmatrix_col_major, false, lane, reg, e);
        EXPECT_EQ(from_nk.row, b.col + reg / 2 * 8);
        EXPECT_EQ(from_nk.col, b.row);
        const MatrixIndex from_kn = loaded_from(ldmatrix_row_major, true, lane, reg, e);
        EXPECT_EQ(from_kn.row, b.row);
        EXPECT_EQ(from_kn.col, b.col + reg / 2 * 8);
      }
    }
  }
}

// Registers 2h, 2h + 1 of C in blocks 2k and 2k + 1 of columns are A of the 16 columns from 16 k.
TEST(FragmentMaps, AccumulatorsAreTheNextProductsOperand) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {
      for (int e = 0; e < 2; ++e) {
        const MatrixIndex c = mma_c_index(lane, reg % 2 * 2 + e);
        EXPECT_EQ(mma_a_index(lane, reg, e).row, c.row);
        EXPECT_EQ(mma_a_index(lane, reg, e).col, c.col + reg / 2 * 8);
      }
    }
  }
}

template <int kCols>
void check_tile() {
  using Tile = SharedTile<kCols>;
  constexpr int kRows = 128;
  std::set<int> offsets;
  for (int row = 0; row < kRows; ++row) {
    for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
      const int offset = Tile::chunk_offset_bytes(row, chunk);
      EXPECT_TRUE(offset >= 0 && offset + 16 <= kRows * Tile::kRowBytes && offset % 16 == 0);
      offsets.insert(offset);
    }
  }
  EXPECT_EQ(offsets.size(), static_cast<std::size_t>(kRows * Tile::kChunks)) << "two chunks in one place";

  for (const auto row_of_lane : {ldmatrix_row_major, ldmatrix_col_major}) {
    for (int row = 0; row < kRows; row += 16) {
      for (int block = 0; block < kCols / 16; ++block) {
        std::array<int, 32> addresses{};
        for (int lane = 0; lane < 32; ++lane) {
          const MatrixIndex at = row_of_lane(lane);
          const unsigned base = 4096u + static_cast<unsigned>(Tile::lane_offset_bytes(at));
          addresses[static_cast<std::size_t>(lane)] = static_cast<int>(Tile::block_address(base, row, block)) - 4096;
          EXPECT_EQ(addresses[static_cast<std::size_t>(lane)],
                    Tile::chunk_offset_bytes(row + at.row, 2 * block + at.col / 8));
        }
        for (std::size_t matrix = 0; matrix < 4; ++matrix) {  // each is read in one pass over the 32 banks
          std::set<int> banks;
          for (std::size_t i = 0; i < 8; ++i) banks.insert(addresses[matrix * 8 + i] / 16 % 8);
          EXPECT_EQ(banks.size(), 8u) << kCols << " columns, row " << row << ", block " << block;
        }
      }
    }
  }
}

TEST(FragmentMaps, TilesAreABijectionWithoutBankConflicts) {
  check_tile<32>();
  check_tile<64>();
  check_tile<96>();
  check_tile<128>();
  check_tile<192>();
  check_tile<256>();
}

}  // namespace
}  // namespace ida::cuda

// Which element of a matrix tile a lane holds or addresses: PTX ISA, "Matrix Fragments for mma.m16n8k16 with
// floating point type" and "ldmatrix". Plain constexpr, so that tests check on the host what kernels use.
#pragma once

namespace ida::cuda {

struct MatrixIndex {
  int row = 0;
  int col = 0;
};

// ---- mma.m16n8k16, bf16 operands: a register holds two elements, the lower half first ----

// A, 16 x 16 (rows m, columns k): registers 0-3.
constexpr MatrixIndex mma_a_index(int lane, int reg, int element) {
  return {lane / 4 + reg % 2 * 8, lane % 4 * 2 + element + reg / 2 * 8};
}
// B, 16 x 8 (rows k, columns n): registers 0-1.
constexpr MatrixIndex mma_b_index(int lane, int reg, int element) { return {lane % 4 * 2 + element + reg * 8, lane / 4}; }
// C and D, 16 x 8 f32 (rows m, columns n): registers 0-3, one element each.
constexpr MatrixIndex mma_c_index(int lane, int reg) { return {lane / 4 + reg / 2 * 8, lane % 4 * 2 + reg % 2}; }

// ---- ldmatrix.x4: lane l gives the address of row l % 8 of the 8 x 8 matrix l / 8, which fills register l / 8 ----

// Where the row that a lane addresses starts inside a 16 x 16 block of a row-major tile.
// For A of mma from [m, k]; with .trans, for two B (n, n + 8) from [k, n].
constexpr MatrixIndex ldmatrix_row_major(int lane) { return {lane % 16, lane / 16 * 8}; }
// For two B (n, n + 8) from [n, k].
constexpr MatrixIndex ldmatrix_col_major(int lane) { return {lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8}; }
// What ldmatrix leaves in a lane: elements of the 8 x 8 matrix that fills the register, by row and column there.
constexpr MatrixIndex ldmatrix_element(int lane, int element) { return {lane / 4, lane % 4 * 2 + element}; }

// ---- tiles of bf16 in shared memory ----

// Rows of kCols elements, kept in chunks of 16 bytes. The chunks of a row are permuted so that one chunk column of 8
// consecutive rows lies in 8 different groups of 4 banks: ldmatrix reads without conflicts.
template <int kCols>
struct SharedTile {
  static_assert(kCols % 32 == 0);
  static constexpr int kChunks = kCols / 8;
  static constexpr int kRowBytes = kCols * 2;
  static constexpr int kKeys = kCols % 64 == 0 ? 8 : 4;  // rows of 64 (mod 128) bytes: two share the banks

  static constexpr int key(int row) { return kKeys == 8 ? row % 8 : row / 2 % 4; }
  static constexpr int chunk_offset_bytes(int row, int chunk) { return row * kRowBytes + (chunk ^ key(row)) * 16; }

  // A lane's address in the first 16 x 16 block, `index` its place there (16 x 16: rows and columns from a multiple of 16).
  static constexpr int lane_offset_bytes(MatrixIndex index) { return chunk_offset_bytes(index.row, index.col / 8); }

  // From that address to the lane's in the block at row `row` (a multiple of 16) and column 16 * block: keys do not change
  // with the block's row, and the block's chunks 2 * block have no bit in common with the lane's 0 or 1, so their lower
  // bits go in by exclusive or and all else is added. One register serves all blocks that differ in what is added.
  // `lane_address` is a multiple of 128 plus lane_offset_bytes.
  static constexpr unsigned block_address(unsigned lane_address, int row, int block) {
    constexpr int kPermuted = kKeys * 16 - 1;
    return (lane_address ^ static_cast<unsigned>(block * 32 & kPermuted)) +
           static_cast<unsigned>(row * kRowBytes + (block * 32 & ~kPermuted));
  }
};

}  // namespace ida::cuda

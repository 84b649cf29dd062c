#include "backend/cuda/kernels/attention_segments.h"

namespace ida::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;

// ---- offsets ----

__global__ void __launch_bounds__(kMaxDocuments)
    document_offsets(const DocumentRow* __restrict__ table, int num_documents, std::int64_t rows,
                     const __grid_constant__ DocumentOffsets out) {
  // next[i]: first row of the first document at or after i that is not empty; for empty ones only.
  __shared__ std::int64_t next[kMaxDocuments];
  const int i = static_cast<int>(threadIdx.x);
  DocumentRow row{0, 0, 0, 0};
  if (i < num_documents) row = table[i];
  const bool used = row.q_len > 0;
  next[i] = used ? row.q_begin : rows;
  __syncthreads();
  for (int reach = 1; reach < kMaxDocuments; reach *= 2) {
    const std::int64_t later = i + reach < kMaxDocuments ? next[i + reach] : rows;
    __syncthreads();
    next[i] = next[i] < later ? next[i] : later;
    __syncthreads();
  }
  const std::int64_t begin = used ? row.q_begin : next[i];
  if (i < num_documents) out.len[i] = row.q_len;
  for (int t = 0; t < out.num_tensors; ++t) {
    if (i < num_documents) out.offset[t][i] = begin * out.row_stride[t];
    if (i == 0) out.offset[t][num_documents] = rows * out.row_stride[t];
  }
}

// ---- uncovered rows ----

struct Extent {
  std::int32_t begin, end;
};

// A warp a row; the block keeps the documents' extents in shared memory.
__global__ void __launch_bounds__(kThreads)
    clear_uncovered_rows(const DocumentRow* __restrict__ table, int num_documents, std::int64_t rows,
                         const __grid_constant__ ClearedRows matrices) {
  __shared__ Extent extents[kMaxDocuments];
  for (int i = static_cast<int>(threadIdx.x); i < num_documents; i += kThreads) {
    const DocumentRow row = table[i];
    extents[i] = {row.q_begin, row.q_begin + row.q_len};
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t num_warps = std::int64_t{gridDim.x} * (kThreads / kWarp);
  for (std::int64_t row = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp; row < rows; row += num_warps) {
    bool covered = false;
    for (int i = lane; i < num_documents; i += kWarp) covered |= extents[i].begin <= row && row < extents[i].end;
    if (__any_sync(0xffffffffu, covered)) continue;
    for (int t = 0; t < matrices.num_tensors; ++t) {
      auto* words =
          reinterpret_cast<std::uint32_t*>(static_cast<char*>(matrices.data[t]) + row * matrices.row_stride_bytes[t]);
      for (std::int64_t w = lane; w < matrices.row_bytes[t] / 4; w += kWarp) words[w] = 0;
    }
  }
}

// ---- transpose ----

constexpr int kTile = 32;
constexpr int kTileRows = kThreads / kTile;

__global__ void __launch_bounds__(kThreads)
    transpose_f32(const float* __restrict__ in, float* __restrict__ out, std::int64_t rows, std::int64_t cols) {
  __shared__ float tile[kTile][kTile + 1];
  const std::int64_t base = std::int64_t{blockIdx.z} * rows * cols;
  const std::int64_t row = std::int64_t{blockIdx.x} * kTile, col = std::int64_t{blockIdx.y} * kTile;
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  for (int i = y; i < kTile; i += kTileRows) {
    if (row + i < rows && col + x < cols) tile[i][x] = in[base + (row + i) * cols + col + x];
  }
  __syncthreads();
  for (int i = y; i < kTile; i += kTileRows) {
    if (col + i < cols && row + x < rows) out[base + (col + i) * rows + row + x] = tile[x][i];
  }
}

unsigned ceil_div(std::int64_t a, std::int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace

cudaError_t launch_document_offsets(const DocumentRow* table, std::int64_t num_documents, std::int64_t rows,
                                    const DocumentOffsets& out, cudaStream_t stream) {
  document_offsets<<<1, kMaxDocuments, 0, stream>>>(table, static_cast<int>(num_documents), rows, out);
  return cudaGetLastError();
}

cudaError_t launch_clear_uncovered_rows(const DocumentRow* table, std::int64_t num_documents, std::int64_t rows,
                                        const ClearedRows& matrices, cudaStream_t stream) {
  constexpr std::int64_t kRowsPerBlock = 64;  // amortises reading the table
  clear_uncovered_rows<<<ceil_div(rows, kRowsPerBlock), kThreads, 0, stream>>>(table, static_cast<int>(num_documents), rows,
                                                                               matrices);
  return cudaGetLastError();
}

cudaError_t launch_transpose_f32(const float* in, float* out, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                                 cudaStream_t stream) {
  const dim3 grid(ceil_div(rows, kTile), ceil_div(cols, kTile), static_cast<unsigned>(batch));
  transpose_f32<<<grid, kThreads, 0, stream>>>(in, out, rows, cols);
  return cudaGetLastError();
}

}  // namespace ida::cuda

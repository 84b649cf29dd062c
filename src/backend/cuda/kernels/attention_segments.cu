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
  for (int t = 0; t < out.num_strides; ++t) {
    if (i < num_documents) out.offset[t][i] = begin * out.row_stride[t];
    if (i == 0) out.offset[t][num_documents] = rows * out.row_stride[t];
  }
}

// ---- rows by coverage ----

struct Extent {
  std::int32_t begin, end;
};

__device__ void clear_row(void* row, std::int64_t bytes, int lane) {
  for (std::int64_t w = lane; w < bytes / 4; w += kWarp) static_cast<std::uint32_t*>(row)[w] = 0;
}
__device__ void copy_row(void* to, const void* from, std::int64_t bytes, int lane) {
  for (std::int64_t w = lane; w < bytes / 16; w += kWarp) static_cast<uint4*>(to)[w] = static_cast<const uint4*>(from)[w];
}

// A warp a row; the block keeps the documents' extents in shared memory.
__global__ void __launch_bounds__(kThreads) settle_rows(const DocumentRow* __restrict__ table, int num_documents,
                                                        std::int64_t rows, const __grid_constant__ CoveredRows matrices) {
  __shared__ Extent extents[kMaxDocuments];
  for (int i = static_cast<int>(threadIdx.x); i < num_documents; i += kThreads) {
    const DocumentRow row = table[i];
    extents[i] = {row.q_begin, row.q_begin + row.q_len};
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t num_warps = std::int64_t{gridDim.x} * (kThreads / kWarp);
  for (std::int64_t row = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp; row < rows; row += num_warps) {
    bool found = false;
    for (int i = lane; i < num_documents; i += kWarp) found |= extents[i].begin <= row && row < extents[i].end;
    const bool covered = __any_sync(0xffffffffu, found) != 0;
    for (int m = 0; m < matrices.num_matrices; ++m) {
      void* to = static_cast<char*>(matrices.data[m]) + row * matrices.row_stride_bytes[m];
      const std::int64_t bytes = matrices.row_bytes[m];
      if (!covered) {
        clear_row(to, bytes, lane);
      } else if (matrices.source[m] != nullptr) {
        copy_row(to, static_cast<const char*>(matrices.source[m]) + row * bytes, bytes, lane);
      }
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

cudaError_t launch_settle_rows(const DocumentRow* table, std::int64_t num_documents, std::int64_t rows,
                               const CoveredRows& matrices, cudaStream_t stream) {
  constexpr std::int64_t kRowsPerBlock = 32;  // amortises reading the table
  settle_rows<<<ceil_div(rows, kRowsPerBlock), kThreads, 0, stream>>>(table, static_cast<int>(num_documents), rows,
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

// What packed attention through a library needs around it: lengths and offsets derived from a segment table, rows that
// no document covers, and the two layouts of row statistics.
//
// The table is read on the device, so a captured graph stays valid when documents move.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace ida::cuda {

// One row of the table, as ops::Segment.
struct DocumentRow {
  std::int32_t q_begin, q_len, kv_begin, kv_len;
};

inline constexpr int kMaxDocuments = 1024;

// Where the documents of a table lie in tensors of several row strides.
struct DocumentOffsets {
  static constexpr int kMaxStrides = 9;
  std::int32_t* len = nullptr;          // [num_documents]
  std::int64_t* offset[kMaxStrides]{};  // [num_documents + 1] each, in elements
  std::int64_t row_stride[kMaxStrides]{};
  int num_strides = 0;
};
// offset[t][i] = begin_i * row_stride[t]; an empty document begins where the next one does, the last offset is the end of
// the rows. num_documents <= kMaxDocuments.
cudaError_t launch_document_offsets(const DocumentRow* table, std::int64_t num_documents, std::int64_t rows,
                                    const DocumentOffsets& out, cudaStream_t stream);

// Matrices whose rows are settled by whether a document covers them.
struct CoveredRows {
  static constexpr int kMaxMatrices = 4;
  void* data[kMaxMatrices]{};
  const void* source[kMaxMatrices]{};      // rows without gaps, or null; with a source everything is 16-byte aligned
  std::int64_t row_bytes[kMaxMatrices]{};  // multiples of 4
  std::int64_t row_stride_bytes[kMaxMatrices]{};
  int num_matrices = 0;
};
// Rows in none of the first num_documents documents become zero; the others are copied from the source, or left alone
// without one.
cudaError_t launch_settle_rows(const DocumentRow* table, std::int64_t num_documents, std::int64_t rows,
                               const CoveredRows& matrices, cudaStream_t stream);

// out[batch, cols, rows] = in[batch, rows, cols], f32; out must not be in.
cudaError_t launch_transpose_f32(const float* in, float* out, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                                 cudaStream_t stream);

}  // namespace ida::cuda

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

// Where the documents of a table lie in several tensors.
struct DocumentOffsets {
  static constexpr int kMaxTensors = 12;
  std::int32_t* len = nullptr;          // [num_documents]
  std::int64_t* offset[kMaxTensors]{};  // [num_documents + 1] each, in elements
  std::int64_t row_stride[kMaxTensors]{};
  int num_tensors = 0;
};
// offset[t][i] = begin_i * row_stride[t]; an empty document begins where the next one does, the last offset is the end of
// the rows. num_documents <= kMaxDocuments.
cudaError_t launch_document_offsets(const DocumentRow* table, std::int64_t num_documents, std::int64_t rows,
                                    const DocumentOffsets& out, cudaStream_t stream);

// A matrix whose uncovered rows are cleared; bytes are multiples of 4.
struct ClearedRows {
  static constexpr int kMaxTensors = 4;
  void* data[kMaxTensors]{};
  std::int64_t row_bytes[kMaxTensors]{};
  std::int64_t row_stride_bytes[kMaxTensors]{};
  int num_tensors = 0;
};
// Writes zero into the rows of every matrix that lie in none of the first num_documents documents.
cudaError_t launch_clear_uncovered_rows(const DocumentRow* table, std::int64_t num_documents, std::int64_t rows,
                                        const ClearedRows& matrices, cudaStream_t stream);

// out[batch, cols, rows] = in[batch, rows, cols], f32; out must not be in.
cudaError_t launch_transpose_f32(const float* in, float* out, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                                 cudaStream_t stream);

}  // namespace ida::cuda

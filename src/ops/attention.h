// Causal attention over documents packed in one token axis: o = softmax(scale * q k^T + mask) v, GQA.
// A segment is one document (or one sequence with its key/value cache): its query i (0-based) stands at key position
// kv_len - q_len + i and sees key j of the same segment iff j <= that position and, with window > 0, j > position - window.
// Scores, softmax and sums are f32; o is rounded once. lse = log sum exp of the scaled scores, natural log.
// Blocking is relative to a segment's start, so a document's result does not depend on what it is packed with.
// Query head h reads key/value head h / (num_heads / num_kv_heads).
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"

namespace ida::ops {

struct AttentionDesc {
  std::int64_t q_rows = 0;   // rows of q and o (all segments)
  std::int64_t kv_rows = 0;  // rows of k and v
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;        // 0: unlimited
  std::int64_t max_segments = 0;  // capacity of the segment table
  float scale = 1.0f;
  DType dtype = DType::kF32;
  // > 0: the caller promises self-attention over documents of exactly this length, one after another, over all rows, so
  // that a library's plan can be made from sizes alone.
  std::int64_t uniform_document_len = 0;
  bool deterministic = false;  // backward: the same bits every time; implementations whose sums race refuse
  std::string to_string() const;
};

// Rows of the segment table, i32.
struct Segment {
  std::int32_t q_begin = 0;
  std::int32_t q_len = 0;
  std::int32_t kv_begin = 0;
  std::int32_t kv_len = 0;
};
static_assert(sizeof(Segment) == 16);

struct AttentionForwardArgs {
  TensorView q;         // [q_rows, num_heads * head_dim]
  TensorView k;         // [kv_rows, num_kv_heads * head_dim]
  TensorView v;         // [kv_rows, num_kv_heads * head_dim]
  TensorView segments;  // [max_segments, 4] i32; unused rows have q_len 0
  TensorView o;         // [q_rows, num_heads * head_dim]; rows in no segment are written as zero
  TensorView lse;       // [q_rows, num_heads] f32, saved for backward; may be empty when not training
};

// Training only: q and k/v rows are the same tokens (q_begin == kv_begin, q_len == kv_len).
struct AttentionBackwardArgs {
  TensorView grad_o;
  TensorView q, k, v, o, lse, segments;
  TensorView grad_q, grad_k, grad_v;  // shapes of q, k, v; written (rows in no segment as zero)
};

using AttentionForwardList = ImplList<AttentionDesc, AttentionForwardArgs>;
using AttentionBackwardList = ImplList<AttentionDesc, AttentionBackwardArgs>;

}  // namespace ida::ops

// The problem of the attention kernels as plain numbers, and who sees whom. Contract: ops/attention.h, whose headers
// do not pass nvcc; the adapter carries it over.
#pragma once
#include <cstdint>

namespace ida::cuda {

// A row of the segment table: ops::Segment.
struct AttentionSegment {
  std::int32_t q_begin = 0;
  std::int32_t q_len = 0;
  std::int32_t kv_begin = 0;
  std::int32_t kv_len = 0;
};
static_assert(sizeof(AttentionSegment) == 16);

// Rows and lengths are below 2^30, so that sums of two fit i32. `window` is at most that too; 0: unlimited.
struct AttentionProblem {
  std::int64_t q_rows = 0;
  std::int64_t kv_rows = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;
  std::int64_t max_segments = 0;
  float scale = 1.0f;
};

// A matrix whose rows are `row_stride` elements apart: q, k, v, o and their gradients, heads side by side in a row.
template <typename T>
struct AttentionMatrix {
  T* data = nullptr;
  std::int64_t row_stride = 0;
};

struct AttentionLse {
  float* data = nullptr;  // [q_rows, num_heads], natural log; null: not wanted
  std::int64_t row_stride = 0;
};

// What both families of kernels take. `workspace` is 64-byte aligned.
template <typename T>
struct AttentionForward {
  AttentionProblem problem;
  const AttentionSegment* segments = nullptr;  // [max_segments]
  AttentionMatrix<const T> q, k, v;
  AttentionMatrix<T> o;
  AttentionLse lse;
  void* workspace = nullptr;
  int num_sms = 1;  // sizes the grid
};

template <typename T>
struct AttentionBackward {
  AttentionProblem problem;
  const AttentionSegment* segments = nullptr;
  AttentionMatrix<const T> grad_o, q, k, v, o;
  AttentionLse lse;
  AttentionMatrix<T> grad_q, grad_k, grad_v;
  void* workspace = nullptr;
  int num_sms = 1;
};

struct IndexRange {
  int begin = 0;
  int end = 0;  // <= begin where empty
};

constexpr int min_of(int a, int b) { return a < b ? a : b; }
constexpr int max_of(int a, int b) { return a > b ? a : b; }
constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Key position of query 0 of a segment.
constexpr int first_position(const AttentionSegment& s) { return s.kv_len - s.q_len; }

constexpr bool sees(int position, int key, int window) {
  return key <= position && (window == 0 || key > position - window);
}

// Every query at positions [first, last] sees every key of [first_key, last_key].
constexpr bool all_see_all(int first, int last, int first_key, int last_key, int window) {
  return last_key <= first && (window == 0 || first_key > last - window);
}

// Keys that some query of [q_first, q_first + count) sees.
constexpr IndexRange keys_of_queries(const AttentionSegment& s, int window, int q_first, int count) {
  const int position = first_position(s) + q_first;
  return {window == 0 ? 0 : max_of(0, position - window + 1), min_of(s.kv_len, position + count)};
}

// Queries that see some key of [k_first, k_first + count).
constexpr IndexRange queries_of_keys(const AttentionSegment& s, int window, int k_first, int count) {
  const int begin = max_of(0, k_first - first_position(s));
  return {begin, window == 0 ? s.q_len : min_of(s.q_len, k_first + count - 1 - first_position(s) + window)};
}

}  // namespace ida::cuda

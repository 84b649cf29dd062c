// Lanes are queries: scores are computed transposed, S^T = K Q^T, so that the running maximum and sum of a query are
// vertical operations, and O^T = V^T P^T reads keys and values row by row. Only the queries are transposed, once an
// item. Per query the arithmetic is: scores as chains over the head dimension; blocks of 64 keys from the segment's
// first key; per block a maximum, a rescale, a sum and a chain over the keys. A single query does the same chains
// with keys (scores) and the head dimension (output) as lanes: decoding gives the bits of the full pass.
#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/tile_gemm.h"

namespace {

using namespace ida;

constexpr std::int64_t kBlock = cpu::kAttentionBlock;
constexpr float kMinusInfinity = -__builtin_inff();
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Keys [first, last] that some query of an item sees; queries stand at positions [position, position + count).
struct KeyRange {
  std::int64_t first;
  std::int64_t last;
};
inline KeyRange visible_keys(const ops::AttentionDesc& desc, std::int64_t position, std::int64_t count) {
  const std::int64_t first = desc.window > 0 && position >= desc.window ? position - desc.window + 1 : 0;
  return {first, position + count - 1};
}

// f32 copies of rows [row, row + count), columns [column, column + size) of a view.
template <typename T>
void copy_rows(const TensorView& view, std::int64_t row, std::int64_t count, std::int64_t column, std::int64_t size,
               float* out, std::int64_t out_stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T* from = row_of<const T>(view, row + i) + column;
    float* to = out + i * out_stride;
    for_vectors(size, [&](std::int64_t c, auto lanes) { store(to + c, load(from + c, lanes), lanes); });
  }
}

// ---- many queries ----

struct Softmax {
  float max[kBlock];  // of scores in units of log2
  float sum[kBlock];
};

struct Masking {
  bool needed;
  std::int32_t first_key;       // of the block
  std::int32_t first_position;  // of the panel's first query
  std::int32_t window;
};

// Turns a panel of raw scores [keys][kPanel] into probabilities relative to the running maximum, which it updates
// together with the sum; the panel of O^T is rescaled to the new maximum.
void softmax_panel(const ops::AttentionDesc& desc, const Masking& mask, std::int64_t num_keys, float* scores,
                   float* running_max, float* running_sum, float* out_panel) {
  const float scale = desc.scale * kLog2E;
  F32 correction[2];
  for (int half = 0; half < 2; ++half) {
    float* s = scores + half * kWidth;
    const F32 old_max = load(running_max + half * kWidth);
    F32 best = old_max;
    if (mask.needed) {
      I32 position;
      for (int i = 0; i < kWidth; ++i) position[i] = mask.first_position + half * kWidth + i;
      const I32 oldest = mask.window > 0 ? position - mask.window : position - position - 1;
      for (std::int64_t j = 0; j < num_keys; ++j) {
        const I32 key = static_cast<std::int32_t>(mask.first_key + j) - I32{};
        const F32 masked = (key <= position) & (key > oldest) ? load(s + j * kPanel) * scale : broadcast(kMinusInfinity);
        store(s + j * kPanel, masked);
        best = max(masked, best);
      }
    } else {
      for (std::int64_t j = 0; j < num_keys; ++j) {
        const F32 scaled = load(s + j * kPanel) * scale;
        store(s + j * kPanel, scaled);
        best = max(scaled, best);
      }
    }
    const F32 shift = best == kMinusInfinity ? F32{} : best;
    F32 sum{};
    for (std::int64_t j = 0; j < num_keys; ++j) {
      const F32 p = exp2_nonpositive(load(s + j * kPanel) - shift);
      store(s + j * kPanel, p);
      sum += p;
    }
    correction[half] = exp2_nonpositive(old_max - shift);
    store(running_max + half * kWidth, best);
    store(running_sum + half * kWidth, load(running_sum + half * kWidth) * correction[half] + sum);
  }
  for (std::int64_t d = 0; d < desc.head_dim; ++d) {
    float* row = out_panel + d * kPanel;
    store(row, load(row) * correction[0]);
    store(row + kWidth, load(row + kWidth) * correction[1]);
  }
}

// Panels [panel][d][kPanel] of the item's queries, zero past the last one.
template <typename T>
void pack_queries(const ops::AttentionDesc& desc, const T* q, std::int64_t stride, std::int64_t count, float* out) {
  for (std::int64_t begin = 0; begin < count; begin += kPanel) {
    float* panel = out + begin * desc.head_dim;
    const std::int64_t lanes = smaller(kPanel, count - begin);
    for (std::int64_t i = 0; i < lanes; ++i) {
      const T* row = q + (begin + i) * stride;
      for (std::int64_t d = 0; d < desc.head_dim; ++d) panel[d * kPanel + i] = load(row + d, Part{1})[0];
    }
    for (std::int64_t d = 0; d < desc.head_dim && lanes < kPanel; ++d) {
      for (std::int64_t i = lanes; i < kPanel; ++i) panel[d * kPanel + i] = 0.0f;
    }
  }
}

template <typename T>
void write_output(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args,
                  const cpu::AttentionQueryItem& item, const Softmax& state, const float* out) {
  for (std::int64_t i = 0; i < item.q_count; ++i) {
    const std::int64_t row = item.segment.q_begin + item.q_first + i;
    T* o = row_of<T>(args.o, row) + item.head * desc.head_dim;
    const float* column = out + i / kPanel * kPanel * desc.head_dim + i % kPanel;
    const float inverse = state.sum[i] > 0.0f ? 1.0f / state.sum[i] : state.sum[i];
    float line[cpu::kAttentionMaxHeadDim];
    for (std::int64_t d = 0; d < desc.head_dim; ++d) line[d] = column[d * kPanel] * inverse;
    for_vectors(desc.head_dim, [&](std::int64_t c, auto lanes) { store(o + c, load(line + c, lanes), lanes); });
    if (args.lse.data != nullptr) {
      row_of<float>(args.lse, row)[item.head] = (state.max[i] + __builtin_log2f(state.sum[i])) * kLn2;
    }
  }
}

template <typename T>
void block_of_queries(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args,
                      const cpu::AttentionQueryItem& item, float* scratch) {
  const std::int64_t dim = desc.head_dim;
  const std::int64_t stride = cpu::padded_head_dim(dim);
  float* queries = scratch;
  float* out = queries + kBlock * stride;
  float* keys = out + kBlock * stride;
  float* values = keys + kBlock * stride;
  float* scores = values + kBlock * stride;
  const std::int64_t column = item.head / (desc.num_heads / desc.num_kv_heads) * dim;

  pack_queries(desc, row_of<const T>(args.q, item.segment.q_begin + item.q_first) + item.head * dim, args.q.row_stride,
               item.q_count, queries);
  Softmax state;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    state.max[i] = kMinusInfinity;
    state.sum[i] = 0.0f;
  }
  for (std::int64_t i = 0; i < kBlock * dim; ++i) out[i] = 0.0f;

  const std::int64_t position = item.segment.kv_len - item.segment.q_len + item.q_first;
  const KeyRange range = visible_keys(desc, position, item.q_count);
  for (std::int64_t key = range.first / kBlock * kBlock; key <= range.last; key += kBlock) {
    const std::int64_t num_keys = smaller(kBlock, range.last + 1 - key);
    copy_rows<T>(args.k, item.segment.kv_begin + key, num_keys, column, dim, keys, stride);
    copy_rows<T>(args.v, item.segment.kv_begin + key, num_keys, column, dim, values, stride);
    for (std::int64_t begin = 0; begin < item.q_count; begin += kPanel) {
      const std::int64_t first = position + begin;
      const std::int64_t last = position + smaller(begin + kPanel, item.q_count) - 1;
      const std::int64_t seen = smaller(num_keys, last - key + 1);
      if (seen <= 0 || (desc.window > 0 && key + num_keys <= first - desc.window + 1)) continue;
      const bool past = desc.window > 0 && key <= last - desc.window;
      const Masking mask{key + seen - 1 > first || past, static_cast<std::int32_t>(key), static_cast<std::int32_t>(first),
                         static_cast<std::int32_t>(desc.window)};
      float* panel = out + begin * dim;
      multiply<false>({seen, kPanel, dim, keys, stride, 1, queries + begin * dim, kPanel, scores, kPanel});
      softmax_panel(desc, mask, seen, scores, state.max + begin, state.sum + begin, panel);
      multiply<true>({dim, kPanel, seen, values, 1, stride, scores, kPanel, panel, kPanel});
    }
  }
  write_output<T>(desc, args, item, state, out);
}

// ---- a single query: decoding with a cache ----

// Keys as columns, [d][kBlock]; columns past the last key are left as they are and their scores not used.
template <typename T>
void transpose_keys(const TensorView& view, std::int64_t row, std::int64_t count, std::int64_t column, std::int64_t dim,
                    float* out) {
  for (std::int64_t j = 0; j < count; ++j) {
    const T* key = row_of<const T>(view, row + j) + column;
    for (std::int64_t d = 0; d < dim; ++d) out[d * kBlock + j] = load(key + d, Part{1})[0];
  }
}

// scores[j] = chain over d of k[j][d] q[d].
inline void score_keys(const float* keys, const float* q, std::int64_t dim, float* scores) {
  constexpr int kVectors = kBlock / kWidth;
  F32 sum[kVectors] = {};
  for (std::int64_t d = 0; d < dim; ++d) {
    const F32 qd = broadcast(q[d]);
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) sum[i] = fma(load(keys + d * kBlock + i * kWidth), qd, sum[i]);
  }
  for (int i = 0; i < kVectors; ++i) store(scores + i * kWidth, sum[i]);
}

struct QueryState {
  float max;
  float sum;
};

// The softmax_panel of one query; scores has kBlock elements.
inline float softmax_query(std::int64_t num_keys, float scale, float* scores, QueryState& state) {
  float best = state.max;
  for (std::int64_t j = 0; j < num_keys; ++j) {
    scores[j] *= scale;
    best = scores[j] > best ? scores[j] : best;
  }
  for (std::int64_t j = num_keys; j < kBlock; ++j) scores[j] = kMinusInfinity;
  const float shift = best == kMinusInfinity ? 0.0f : best;
  for_vectors(kBlock, [&](std::int64_t c, auto lanes) {
    store(scores + c, exp2_nonpositive(load(scores + c, lanes) - shift), lanes);
  });
  float sum = 0.0f;
  for (std::int64_t j = 0; j < num_keys; ++j) sum += scores[j];
  const float correction = exp2_nonpositive(broadcast(state.max - shift))[0];
  state.max = best;
  state.sum = state.sum * correction + sum;
  return correction;
}

template <typename T>
void single_query(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args,
                  const cpu::AttentionQueryItem& item, float* scratch) {
  const std::int64_t dim = desc.head_dim;
  const std::int64_t stride = cpu::padded_head_dim(dim);
  const std::int64_t group = desc.num_heads / desc.num_kv_heads;
  float* keys = scratch;
  float* values = keys + kBlock * stride;
  float* scores = values + kBlock * stride;
  float* queries = scores + kBlock;
  float* out = queries + group * stride;
  QueryState* state = reinterpret_cast<QueryState*>(out + group * stride);

  const std::int64_t row = item.segment.q_begin + item.q_first;
  for (std::int64_t g = 0; g < group; ++g) {
    copy_rows<T>(args.q, row, 1, (item.head * group + g) * dim, dim, queries + g * stride, stride);
    state[g] = {kMinusInfinity, 0.0f};
  }
  for (std::int64_t i = 0; i < group * stride; ++i) out[i] = 0.0f;

  const std::int64_t position = item.segment.kv_len - item.segment.q_len + item.q_first;
  const KeyRange range = visible_keys(desc, position, 1);
  for (std::int64_t block = range.first / kBlock * kBlock; block <= range.last; block += kBlock) {
    const std::int64_t first = block < range.first ? range.first : block;
    const std::int64_t num_keys = smaller(block + kBlock, range.last + 1) - first;
    transpose_keys<T>(args.k, item.segment.kv_begin + first, num_keys, item.head * dim, dim, keys);
    copy_rows<T>(args.v, item.segment.kv_begin + first, num_keys, item.head * dim, dim, values, stride);
    for (std::int64_t g = 0; g < group; ++g) {
      score_keys(keys, queries + g * stride, dim, scores);
      const float correction = softmax_query(num_keys, desc.scale * kLog2E, scores, state[g]);
      float* o = out + g * stride;
      for (std::int64_t c = 0; c < stride; c += kPanel) {
        F32 sum0 = load(o + c) * correction;
        F32 sum1 = load(o + c + kWidth) * correction;
        for (std::int64_t j = 0; j < num_keys; ++j) {
          const F32 p = broadcast(scores[j]);
          sum0 = fma(load(values + j * stride + c), p, sum0);
          sum1 = fma(load(values + j * stride + c + kWidth), p, sum1);
        }
        store(o + c, sum0);
        store(o + c + kWidth, sum1);
      }
    }
  }
  for (std::int64_t g = 0; g < group; ++g) {
    const std::int64_t head = item.head * group + g;
    T* o = row_of<T>(args.o, row) + head * dim;
    const float inverse = state[g].sum > 0.0f ? 1.0f / state[g].sum : state[g].sum;
    for_vectors(dim, [&](std::int64_t c, auto lanes) { store(o + c, load(out + g * stride + c, lanes) * inverse, lanes); });
    if (args.lse.data != nullptr) {
      row_of<float>(args.lse, row)[head] = (state[g].max + __builtin_log2f(state[g].sum)) * kLn2;
    }
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void attention_forward(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args,
                       const AttentionQueryItem& item, float* scratch) {
  with_element_type(desc.dtype, [&](auto type) {
    using T = decltype(type);
    if (item.segment.q_len == 1) {
      single_query<T>(desc, args, item, scratch);
    } else {
      block_of_queries<T>(desc, args, item, scratch);
    }
  });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

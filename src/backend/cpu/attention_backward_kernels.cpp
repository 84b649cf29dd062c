// Lanes are keys. Per segment and key/value head: key blocks outside, the group's heads and their query blocks inside,
// so that the gradients of keys and values stay in cache and keys are transposed once; queries are read row by row.
// With P = exp(s - lse) and dS = P * (dO V^T - rowsum(dO * O)): dV = P^T dO, dK = scale dS^T Q, dQ = scale dS K.
// Heads, then query blocks ascending, are the order of every sum: it depends on the segment alone.
#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/tile_gemm.h"

namespace {

using namespace ida;

constexpr std::int64_t kBlock = cpu::kAttentionBlock;
constexpr float kLog2E = 1.44269504f;

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// A thread's buffers, f32. Rows of `stride` elements, zero beyond the head dimension.
struct Buffers {
  std::int64_t stride;
  float* keys;               // [kBlock][stride]
  float* keys_transposed;    // panels [panel][d][kPanel] of keys
  float* values_transposed;  // the same of values
  float* grad_keys;          // [kBlock][stride]
  float* grad_values;
  float* queries;
  float* grad_out;
  float* grad_queries;
  float* p;  // [queries][kBlock]
  float* ds;
};

Buffers make_buffers(std::int64_t head_dim, float* scratch) {
  const std::int64_t stride = cpu::padded_head_dim(head_dim);
  const std::int64_t size = kBlock * stride;
  return {stride,
          scratch,
          scratch + size,
          scratch + 2 * size,
          scratch + 3 * size,
          scratch + 4 * size,
          scratch + 5 * size,
          scratch + 6 * size,
          scratch + 7 * size,
          scratch + 8 * size,
          scratch + 8 * size + kBlock * kBlock};
}

inline void fill_zero(float* out, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) out[i] = 0.0f;
}

// `count` rows of a head as f32, with zeros up to the stride.
template <typename T>
void copy_rows(const T* from, std::int64_t from_stride, std::int64_t count, std::int64_t dim, float* out,
               std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    float* to = out + i * stride;
    for_vectors(dim, [&](std::int64_t c, auto lanes) { store(to + c, load(from + i * from_stride + c, lanes), lanes); });
    for (std::int64_t c = dim; c < stride; ++c) to[c] = 0.0f;
  }
}

// Rows -> panels [panel][d][kPanel], zero past the last row; whole kBlock rows are written.
template <typename T>
void transpose_rows(const T* from, std::int64_t from_stride, std::int64_t count, std::int64_t dim, float* out) {
  for (std::int64_t begin = 0; begin < kBlock; begin += kPanel) {
    float* panel = out + begin * dim;
    for (std::int64_t i = 0; i < kPanel; ++i) {
      const T* row = from + (begin + i) * from_stride;
      const bool inside = begin + i < count;
      for (std::int64_t d = 0; d < dim; ++d) panel[d * kPanel + i] = inside ? load(row + d, Part{1})[0] : 0.0f;
    }
  }
}

// The rows of a query block against a key block.
struct Pair {
  std::int64_t q_first;  // of the segment
  std::int64_t q_count;
  std::int64_t key_first;
  std::int64_t key_count;
};

// Turns raw scores and dP (in `b.ds`) of a pair into P and dS / scale.
void softmax_gradient(const ops::AttentionDesc& desc, const Pair& pair, const float* lse, const float* dot,
                      std::int64_t statistics_stride, std::int64_t dot_stride, const Buffers& b) {
  const float scale = desc.scale * kLog2E;
  const bool masked = pair.key_first + kBlock - 1 > pair.q_first ||
                      (desc.window > 0 && pair.key_first <= pair.q_first + pair.q_count - 1 - desc.window);
  for (std::int64_t i = 0; i < pair.q_count; ++i) {
    const F32 row_lse = broadcast(lse[i * statistics_stride] * kLog2E);
    const F32 row_dot = broadcast(dot[i * dot_stride]);
    const std::int32_t position = static_cast<std::int32_t>(pair.q_first + i);
    const std::int32_t oldest = desc.window > 0 ? position - static_cast<std::int32_t>(desc.window) : -1;
    float* p_row = b.p + i * kBlock;
    float* ds_row = b.ds + i * kBlock;
    for (std::int64_t c = 0; c < kBlock; c += kWidth) {
      F32 exponent = load(p_row + c) * scale - row_lse;
      if (masked) {
        I32 key;
        for (int lane = 0; lane < kWidth; ++lane) key[lane] = static_cast<std::int32_t>(pair.key_first + c) + lane;
        exponent = (key <= position) & (key > oldest) ? exponent : broadcast(-__builtin_inff());
      }
      const F32 p = exp2_nonpositive(exponent);
      store(p_row + c, p);
      store(ds_row + c, p * (load(ds_row + c) - row_dot));
    }
  }
}

template <typename T>
void pair_gradients(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args,
                    const cpu::AttentionBackwardItem& item, std::int64_t head, const Pair& pair, const Buffers& b) {
  const std::int64_t dim = desc.head_dim;
  const std::int64_t row = item.segment.q_begin + pair.q_first;
  const std::int64_t stride = b.stride;
  copy_rows(row_of<const T>(args.q, row) + head * dim, args.q.row_stride, pair.q_count, dim, b.queries, stride);
  copy_rows(row_of<const T>(args.grad_o, row) + head * dim, args.grad_o.row_stride, pair.q_count, dim, b.grad_out, stride);
  for (std::int64_t key = 0; key < kBlock; key += kPanel) {
    multiply<false>(
        {pair.q_count, kPanel, dim, b.queries, stride, 1, b.keys_transposed + key * dim, kPanel, b.p + key, kBlock});
    multiply<false>(
        {pair.q_count, kPanel, dim, b.grad_out, stride, 1, b.values_transposed + key * dim, kPanel, b.ds + key, kBlock});
  }
  softmax_gradient(desc, pair, row_of<const float>(args.lse, row) + head, item.dot + row * desc.num_heads + head,
                   args.lse.row_stride, desc.num_heads, b);
  multiply<true>({pair.key_count, stride, pair.q_count, b.p, 1, kBlock, b.grad_out, stride, b.grad_values, stride});
  multiply<true>({pair.key_count, stride, pair.q_count, b.ds, 1, kBlock, b.queries, stride, b.grad_keys, stride});
  multiply<false>({pair.q_count, stride, pair.key_count, b.ds, kBlock, 1, b.keys, stride, b.grad_queries, stride});
  for (std::int64_t i = 0; i < pair.q_count; ++i) {
    float* sum = item.grad_q_sum + (row + i) * item.grad_q_stride + head * dim;
    const float* part = b.grad_queries + i * stride;
    for_vectors(dim, [&](std::int64_t c, auto lanes) {
      store(sum + c, load(sum + c, lanes) + load(part + c, lanes) * desc.scale, lanes);
    });
  }
}

template <typename T>
void write_rows(const TensorView& view, std::int64_t row, std::int64_t count, std::int64_t column, std::int64_t dim,
                const float* from, std::int64_t stride, float scale) {
  for (std::int64_t i = 0; i < count; ++i) {
    T* to = row_of<T>(view, row + i) + column;
    for_vectors(dim, [&](std::int64_t c, auto lanes) { store(to + c, load(from + i * stride + c, lanes) * scale, lanes); });
  }
}

template <typename T>
void dot_rows(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args,
              const cpu::AttentionBackwardItem& item, std::int64_t head) {
  for (std::int64_t i = 0; i < item.segment.q_len; ++i) {
    const std::int64_t row = item.segment.q_begin + i;
    const T* o = row_of<const T>(args.o, row) + head * desc.head_dim;
    const T* grad_o = row_of<const T>(args.grad_o, row) + head * desc.head_dim;
    item.dot[row * desc.num_heads + head] = sum_vectors(
        desc.head_dim, [&](std::int64_t c, auto lanes) { return load(o + c, lanes) * load(grad_o + c, lanes); });
  }
}

template <typename T>
void segment_gradients(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args,
                       const cpu::AttentionBackwardItem& item, float* scratch) {
  const Buffers b = make_buffers(desc.head_dim, scratch);
  const std::int64_t dim = desc.head_dim;
  const std::int64_t length = item.segment.q_len;
  const std::int64_t group = desc.num_heads / desc.num_kv_heads;
  const std::int64_t column = item.kv_head * dim;
  for (std::int64_t head = item.kv_head * group; head < (item.kv_head + 1) * group; ++head) {
    dot_rows<T>(desc, args, item, head);
  }
  for (std::int64_t key = 0; key < length; key += kBlock) {
    const std::int64_t num_keys = smaller(kBlock, length - key);
    const std::int64_t key_row = item.segment.kv_begin + key;
    const T* k = row_of<const T>(args.k, key_row) + column;
    const T* v = row_of<const T>(args.v, key_row) + column;
    copy_rows(k, args.k.row_stride, num_keys, dim, b.keys, b.stride);
    transpose_rows(k, args.k.row_stride, num_keys, dim, b.keys_transposed);
    transpose_rows(v, args.v.row_stride, num_keys, dim, b.values_transposed);
    fill_zero(b.grad_keys, num_keys * b.stride);
    fill_zero(b.grad_values, num_keys * b.stride);
    // The last query that sees a key of this block stands window - 1 behind its last key.
    const std::int64_t end = desc.window > 0 ? smaller(length, key + num_keys - 1 + desc.window) : length;
    for (std::int64_t head = item.kv_head * group; head < (item.kv_head + 1) * group; ++head) {
      for (std::int64_t query = key; query < end; query += kBlock) {
        pair_gradients<T>(desc, args, item, head, {query, smaller(kBlock, end - query), key, num_keys}, b);
      }
    }
    write_rows<T>(args.grad_k, key_row, num_keys, column, dim, b.grad_keys, b.stride, desc.scale);
    write_rows<T>(args.grad_v, key_row, num_keys, column, dim, b.grad_values, b.stride, 1.0f);
  }
  if (desc.dtype == DType::kF32) return;
  for (std::int64_t head = item.kv_head * group; head < (item.kv_head + 1) * group; ++head) {
    const float* sum = item.grad_q_sum + item.segment.q_begin * item.grad_q_stride + head * dim;
    write_rows<T>(args.grad_q, item.segment.q_begin, length, head * dim, dim, sum, item.grad_q_stride, 1.0f);
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void attention_backward(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args,
                        const AttentionBackwardItem& item, float* scratch) {
  with_element_type(desc.dtype, [&](auto type) { segment_gradients<decltype(type)>(desc, args, item, scratch); });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

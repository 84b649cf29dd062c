// A packed attention problem and its formula in f64, written against ops/attention.h alone.
#pragma once
#include "backend/cpu/attention.h"
#include "op_test_support.h"

namespace ida::cpu {

struct AttentionShape {
  std::int64_t num_heads = 4;
  std::int64_t num_kv_heads = 2;
  std::int64_t head_dim = 16;
  std::int64_t window = 0;
  DType dtype = DType::kF32;
};

// Self-attention over documents that lie `gap` rows apart in the token axis; rows in the gaps are in no segment.
struct AttentionCase {
  AttentionCase(const AttentionShape& shape, const std::vector<std::int64_t>& lengths, std::int64_t gap = 0) {
    std::int64_t rows = gap;
    for (const std::int64_t length : lengths) rows += length + gap;
    init(shape, rows, rows, static_cast<std::int64_t>(lengths.size()) + 1);
    std::int64_t begin = gap;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      set_segment(static_cast<std::int64_t>(i), {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(lengths[i]),
                                                 static_cast<std::int32_t>(begin), static_cast<std::int32_t>(lengths[i])});
      begin += lengths[i] + gap;
    }
  }
  // Queries against a cache: one segment a sequence, kv_lens[i] keys, the last q_len of them are the queries.
  AttentionCase(const AttentionShape& shape, std::int64_t q_len, const std::vector<std::int64_t>& kv_lens,
                std::int64_t capacity, bool) {
    const auto count = static_cast<std::int64_t>(kv_lens.size());
    init(shape, q_len * count, capacity * count, count);
    for (std::int64_t i = 0; i < count; ++i) {
      set_segment(
          i, {static_cast<std::int32_t>(i * q_len), static_cast<std::int32_t>(q_len),
              static_cast<std::int32_t>(i * capacity), static_cast<std::int32_t>(kv_lens[static_cast<std::size_t>(i)])});
    }
  }

  void init(const AttentionShape& shape, std::int64_t q_rows, std::int64_t kv_rows, std::int64_t max_segments) {
    desc = {q_rows,       kv_rows, shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.window,
            max_segments, 0.0f,    shape.dtype};
    desc.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    const std::int64_t q_cols = shape.num_heads * shape.head_dim;
    const std::int64_t kv_cols = shape.num_kv_heads * shape.head_dim;
    q = HostTensor(shape.dtype, q_rows, q_cols, 8).randomize(1);
    k = HostTensor(shape.dtype, kv_rows, kv_cols, 5).randomize(2);
    v = HostTensor(shape.dtype, kv_rows, kv_cols, 3).randomize(3);
    grad_o = HostTensor(shape.dtype, q_rows, q_cols, 1).randomize(4);
    o = HostTensor(shape.dtype, q_rows, q_cols, 2);
    lse = HostTensor(DType::kF32, q_rows, shape.num_heads);
    grad_q = HostTensor(shape.dtype, q_rows, q_cols, 4);
    grad_k = HostTensor(shape.dtype, kv_rows, kv_cols, 6);
    grad_v = HostTensor(shape.dtype, kv_rows, kv_cols, 7);
    segments = HostTensor(DType::kI32, max_segments, 4).fill(0.0);
  }
  void set_segment(std::int64_t i, const ops::Segment& s) {
    const std::int32_t fields[] = {s.q_begin, s.q_len, s.kv_begin, s.kv_len};
    for (int c = 0; c < 4; ++c) segments.set(i, c, fields[c]);
  }
  ops::Segment segment(std::int64_t i) const {
    return {static_cast<std::int32_t>(segments.at(i, 0)), static_cast<std::int32_t>(segments.at(i, 1)),
            static_cast<std::int32_t>(segments.at(i, 2)), static_cast<std::int32_t>(segments.at(i, 3))};
  }
  ops::AttentionForwardArgs forward() const {
    return {q.view(), k.view(), v.view(), segments.view(), o.view(), lse.view()};
  }
  ops::AttentionBackwardArgs backward() const {
    return {grad_o.view(), q.view(),        k.view(),      v.view(),      o.view(),
            lse.view(),    segments.view(), grad_q.view(), grad_k.view(), grad_v.view()};
  }

  ops::AttentionDesc desc;
  HostTensor q, k, v, grad_o, o, lse, grad_q, grad_k, grad_v, segments;
};

struct AttentionValues {
  std::vector<double> o;
  std::vector<double> lse;
};

// o and lse of q, k, v given as plain row-major f64 values.
inline AttentionValues attention_f64(const AttentionCase& t, const std::vector<double>& q, const std::vector<double>& k,
                                     const std::vector<double>& v) {
  const ops::AttentionDesc& d = t.desc;
  const std::int64_t group = d.num_heads / d.num_kv_heads;
  AttentionValues out{std::vector<double>(static_cast<std::size_t>(d.q_rows * d.num_heads * d.head_dim)),
                      std::vector<double>(static_cast<std::size_t>(d.q_rows * d.num_heads))};
  const auto q_at = [&](std::int64_t row, std::int64_t head, std::int64_t c) {
    return static_cast<std::size_t>((row * d.num_heads + head) * d.head_dim + c);
  };
  const auto kv_at = [&](std::int64_t row, std::int64_t head, std::int64_t c) {
    return static_cast<std::size_t>((row * d.num_kv_heads + head / group) * d.head_dim + c);
  };
  for (std::int64_t s = 0; s < d.max_segments; ++s) {
    const ops::Segment segment = t.segment(s);
    for (std::int64_t i = 0; i < segment.q_len; ++i) {
      const std::int64_t position = segment.kv_len - segment.q_len + i;
      for (std::int64_t head = 0; head < d.num_heads; ++head) {
        double sum = 0.0;
        std::vector<double> mix(static_cast<std::size_t>(d.head_dim));
        for (std::int64_t j = 0; j < segment.kv_len; ++j) {
          if (j > position || (d.window > 0 && !(j > position - d.window))) continue;
          double score = 0.0;
          for (std::int64_t c = 0; c < d.head_dim; ++c) {
            score += q[q_at(segment.q_begin + i, head, c)] * k[kv_at(segment.kv_begin + j, head, c)];
          }
          const double p = std::exp(score * static_cast<double>(d.scale));
          sum += p;
          for (std::int64_t c = 0; c < d.head_dim; ++c) {
            mix[static_cast<std::size_t>(c)] += p * v[kv_at(segment.kv_begin + j, head, c)];
          }
        }
        for (std::int64_t c = 0; c < d.head_dim; ++c) {
          out.o[q_at(segment.q_begin + i, head, c)] = sum > 0.0 ? mix[static_cast<std::size_t>(c)] / sum : 0.0;
        }
        out.lse[static_cast<std::size_t>((segment.q_begin + i) * d.num_heads + head)] = std::log(sum);
      }
    }
  }
  return out;
}
inline AttentionValues attention_f64(const AttentionCase& t) {
  return attention_f64(t, t.q.values(), t.k.values(), t.v.values());
}

}  // namespace ida::cpu

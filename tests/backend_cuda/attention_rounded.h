// What bf16 operands cost any attention on tensor cores: the formulas in f64 with P, dS and the results rounded to bf16
// where a kernel has to round them. The bar for kernels is a multiple of this reference's own error.
#pragma once
#include "backend_cpu/attention_test_support.h"

namespace ida::cuda {

inline double round_bf16(double x) { return static_cast<double>(to_f32(bf16_from_f32(static_cast<float>(x)))); }

// Calls body(query row, first key row, head, key/value column, P of the keys seen, in order) for every query.
struct RoundedRow {
  std::int64_t row, head, q_col, kv_col;
  std::vector<std::int64_t> keys;  // rows
  std::vector<double> scores;      // scaled
};
template <typename Body>
void for_each_rounded_row(const cpu::AttentionCase& t, Body&& body) {
  const ops::AttentionDesc& d = t.desc;
  for (std::int64_t s = 0; s < d.max_segments; ++s) {
    const ops::Segment segment = t.segment(s);
    for (std::int64_t i = 0; i < segment.q_len; ++i) {
      const std::int64_t position = segment.kv_len - segment.q_len + i;
      for (std::int64_t head = 0; head < d.num_heads; ++head) {
        RoundedRow r{
            segment.q_begin + i, head, head * d.head_dim, head / (d.num_heads / d.num_kv_heads) * d.head_dim, {}, {}};
        for (std::int64_t j = d.window > 0 ? std::max<std::int64_t>(0, position - d.window + 1) : 0; j <= position; ++j) {
          double score = 0.0;
          for (std::int64_t c = 0; c < d.head_dim; ++c) {
            score += t.q.at(r.row, r.q_col + c) * t.k.at(segment.kv_begin + j, r.kv_col + c);
          }
          r.keys.push_back(segment.kv_begin + j);
          r.scores.push_back(score * static_cast<double>(d.scale));
        }
        body(r);
      }
    }
  }
}

inline std::vector<double> rounded_forward(const cpu::AttentionCase& t) {
  const ops::AttentionDesc& d = t.desc;
  std::vector<double> o(static_cast<std::size_t>(d.q_rows * d.num_heads * d.head_dim));
  for_each_rounded_row(t, [&](const RoundedRow& r) {
    if (r.keys.empty()) return;
    const double max = *std::max_element(r.scores.begin(), r.scores.end());
    double sum = 0.0;
    for (const double s : r.scores) sum += std::exp(s - max);
    for (std::int64_t c = 0; c < d.head_dim; ++c) {
      double out = 0.0;
      for (std::size_t j = 0; j < r.keys.size(); ++j) {
        out += round_bf16(std::exp(r.scores[j] - max)) * t.v.at(r.keys[j], r.kv_col + c);
      }
      o[static_cast<std::size_t>(r.row * d.num_heads * d.head_dim + r.q_col + c)] = round_bf16(out / sum);
    }
  });
  return o;
}

struct RoundedGrads {
  std::vector<double> q, k, v;
};

// From t.o and t.lse, as kernels.
inline RoundedGrads rounded_backward(const cpu::AttentionCase& t) {
  const ops::AttentionDesc& d = t.desc;
  const std::int64_t q_cols = d.num_heads * d.head_dim;
  const std::int64_t kv_cols = d.num_kv_heads * d.head_dim;
  RoundedGrads grads{std::vector<double>(static_cast<std::size_t>(d.q_rows * q_cols)),
                     std::vector<double>(static_cast<std::size_t>(d.kv_rows * kv_cols)),
                     std::vector<double>(static_cast<std::size_t>(d.kv_rows * kv_cols))};
  for_each_rounded_row(t, [&](const RoundedRow& r) {
    double delta = 0.0;
    for (std::int64_t c = 0; c < d.head_dim; ++c) delta += t.grad_o.at(r.row, r.q_col + c) * t.o.at(r.row, r.q_col + c);
    for (std::size_t j = 0; j < r.keys.size(); ++j) {
      const double p = std::exp(r.scores[j] - t.lse.at(r.row, r.head));
      double dp = 0.0;
      for (std::int64_t c = 0; c < d.head_dim; ++c) {
        dp += t.grad_o.at(r.row, r.q_col + c) * t.v.at(r.keys[j], r.kv_col + c);
      }
      const double ds = round_bf16(p * (dp - delta)) * static_cast<double>(d.scale);
      for (std::int64_t c = 0; c < d.head_dim; ++c) {
        const auto kv = static_cast<std::size_t>(r.keys[j] * kv_cols + r.kv_col + c);
        grads.q[static_cast<std::size_t>(r.row * q_cols + r.q_col + c)] += ds * t.k.at(r.keys[j], r.kv_col + c);
        grads.k[kv] += ds * t.q.at(r.row, r.q_col + c);
        grads.v[kv] += round_bf16(p) * t.grad_o.at(r.row, r.q_col + c);
      }
    }
  });
  for (std::vector<double>* grad : {&grads.q, &grads.k, &grads.v}) {
    for (double& x : *grad) x = round_bf16(x);
  }
  return grads;
}

}  // namespace ida::cuda

#include "backend/cpu/attention_definition.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::AttentionBackwardArgs;
using ops::AttentionDesc;
using ops::AttentionForwardArgs;
using ops::Launch;
using ops::Segment;

struct Range {
  Index first;
  Index last;  // before `first` where nothing is seen
};

Range keys_seen(const AttentionDesc& desc, const Segment& segment, Index query) {
  const Index position = segment.kv_len - segment.q_len + query;
  return {desc.window > 0 ? std::max<Index>(0, position - desc.window + 1) : 0, position};
}

template <typename T>
double dot(const T* a, const T* b, Index size) {
  double sum = 0.0;
  for (Index d = 0; d < size; ++d) sum += static_cast<double>(to_f32(a[d])) * static_cast<double>(to_f32(b[d]));
  return sum;
}

// One query of one head: a row of addresses shared by forward and backward.
template <typename T>
struct Row {
  const T* q;
  const T* k;  // of the segment's key 0
  const T* v;
};

template <typename T, typename Args>
Row<T> row_at(const AttentionDesc& desc, const Args& args, const Segment& segment, Index query, Index head) {
  const Index kv_column = head / (desc.num_heads / desc.num_kv_heads) * desc.head_dim;
  return {row_of<const T>(args.q, segment.q_begin + query) + head * desc.head_dim,
          row_of<const T>(args.k, segment.kv_begin) + kv_column, row_of<const T>(args.v, segment.kv_begin) + kv_column};
}

template <typename T>
void forward_query(const AttentionDesc& desc, const AttentionForwardArgs& args, const Segment& segment, Index query,
                   Index head, double* p) {
  const Row<T> row = row_at<T>(desc, args, segment, query, head);
  const Range keys = keys_seen(desc, segment, query);
  double max = -std::numeric_limits<double>::infinity();
  for (Index j = keys.first; j <= keys.last; ++j) {
    p[j] = dot(row.q, row.k + j * args.k.row_stride, desc.head_dim) * static_cast<double>(desc.scale);
    max = std::max(max, p[j]);
  }
  double sum = 0.0;
  for (Index j = keys.first; j <= keys.last; ++j) sum += p[j] = std::exp(p[j] - max);
  T* o = row_of<T>(args.o, segment.q_begin + query) + head * desc.head_dim;
  for (Index d = 0; d < desc.head_dim; ++d) {
    double out = 0.0;
    for (Index j = keys.first; j <= keys.last; ++j) {
      out += p[j] * static_cast<double>(to_f32(row.v[j * args.v.row_stride + d]));
    }
    o[d] = from_f32<T>(keys.last < keys.first ? 0.0f : static_cast<float>(out / sum));
  }
  if (!args.lse.empty()) {
    row_of<float>(args.lse, segment.q_begin + query)[head] = static_cast<float>(max + std::log(sum));
  }
}

// Sums over the queries of a key/value head in f64: grad_k and grad_v rows of the segment.
struct BackwardScratch {
  double* p;  // [kv_rows]
  double* ds;
  double* grad_k;  // [kv_rows, head_dim]
  double* grad_v;
};

template <typename T>
void backward_query(const AttentionDesc& desc, const AttentionBackwardArgs& args, const Segment& segment, Index query,
                    Index head, const BackwardScratch& s) {
  const Row<T> row = row_at<T>(desc, args, segment, query, head);
  const Range keys = keys_seen(desc, segment, query);
  const Index token = segment.q_begin + query;
  const T* grad_o = row_of<const T>(args.grad_o, token) + head * desc.head_dim;
  const double grad_dot = dot(grad_o, row_of<const T>(args.o, token) + head * desc.head_dim, desc.head_dim);
  const double lse = static_cast<double>(row_of<const float>(args.lse, token)[head]);
  const double scale = static_cast<double>(desc.scale);
  for (Index j = keys.first; j <= keys.last; ++j) {
    s.p[j] = std::exp(dot(row.q, row.k + j * args.k.row_stride, desc.head_dim) * scale - lse);
    s.ds[j] = s.p[j] * (dot(grad_o, row.v + j * args.v.row_stride, desc.head_dim) - grad_dot) * scale;
  }
  T* grad_q = row_of<T>(args.grad_q, token) + head * desc.head_dim;
  for (Index d = 0; d < desc.head_dim; ++d) {
    double sum = 0.0;
    for (Index j = keys.first; j <= keys.last; ++j) {
      sum += s.ds[j] * static_cast<double>(to_f32(row.k[j * args.k.row_stride + d]));
      s.grad_k[j * desc.head_dim + d] += s.ds[j] * static_cast<double>(to_f32(row.q[d]));
      s.grad_v[j * desc.head_dim + d] += s.p[j] * static_cast<double>(to_f32(grad_o[d]));
    }
    grad_q[d] = from_f32<T>(static_cast<float>(sum));
  }
}

template <typename T>
void backward_segment(const AttentionDesc& desc, const AttentionBackwardArgs& args, const Segment& segment, Index kv_head,
                      const BackwardScratch& s) {
  const Index group = desc.num_heads / desc.num_kv_heads;
  std::fill_n(s.grad_k, segment.kv_len * desc.head_dim, 0.0);
  std::fill_n(s.grad_v, segment.kv_len * desc.head_dim, 0.0);
  for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (Index query = 0; query < segment.q_len; ++query) backward_query<T>(desc, args, segment, query, head, s);
  }
  for (Index j = 0; j < segment.kv_len; ++j) {
    T* grad_k = row_of<T>(args.grad_k, segment.kv_begin + j) + kv_head * desc.head_dim;
    T* grad_v = row_of<T>(args.grad_v, segment.kv_begin + j) + kv_head * desc.head_dim;
    for (Index d = 0; d < desc.head_dim; ++d) {
      grad_k[d] = from_f32<T>(static_cast<float>(s.grad_k[j * desc.head_dim + d]));
      grad_v[d] = from_f32<T>(static_cast<float>(s.grad_v[j * desc.head_dim + d]));
    }
  }
}

constexpr std::int64_t kDoubleBytes = sizeof(double);

}  // namespace

void zero_rows(const TensorView& view) {
  const std::size_t size = static_cast<std::size_t>(view.cols * dtype_size_bytes(view.dtype));
  parallel_for(view.rows, rows_per_piece(view.cols), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) std::memset(element_address(view, row, 0), 0, size);
  });
}

std::int64_t attention_forward_definition_workspace(const AttentionDesc& desc, const runtime::DeviceInfo&) {
  return WorkspaceParts::aligned(desc.kv_rows * kDoubleBytes);
}

void attention_forward_definition(const AttentionDesc& desc, const AttentionForwardArgs& args, const Launch& launch) {
  double* p = WorkspaceParts(launch.workspace).take<double>(desc.kv_rows);
  zero_rows(args.o);
  if (!args.lse.empty()) zero_rows(args.lse);
  for (Index i = 0; i < desc.max_segments; ++i) {
    const Segment& segment = static_cast<const Segment*>(args.segments.data)[i];
    for (Index query = 0; query < segment.q_len; ++query) {
      for (Index head = 0; head < desc.num_heads; ++head) {
        with_element_type(desc.dtype,
                          [&](auto type) { forward_query<decltype(type)>(desc, args, segment, query, head, p); });
      }
    }
  }
}

std::int64_t attention_backward_definition_workspace(const AttentionDesc& desc, const runtime::DeviceInfo&) {
  return 2 * WorkspaceParts::aligned(desc.kv_rows * kDoubleBytes) +
         2 * WorkspaceParts::aligned(desc.kv_rows * desc.head_dim * kDoubleBytes);
}

void attention_backward_definition(const AttentionDesc& desc, const AttentionBackwardArgs& args, const Launch& launch) {
  WorkspaceParts parts(launch.workspace);
  BackwardScratch scratch{};
  scratch.p = parts.take<double>(desc.kv_rows);
  scratch.ds = parts.take<double>(desc.kv_rows);
  scratch.grad_k = parts.take<double>(desc.kv_rows * desc.head_dim);
  scratch.grad_v = parts.take<double>(desc.kv_rows * desc.head_dim);
  for (const TensorView& view : {args.grad_q, args.grad_k, args.grad_v}) zero_rows(view);
  for (Index i = 0; i < desc.max_segments; ++i) {
    const Segment& segment = static_cast<const Segment*>(args.segments.data)[i];
    for (Index kv_head = 0; segment.q_len > 0 && kv_head < desc.num_kv_heads; ++kv_head) {
      with_element_type(desc.dtype,
                        [&](auto type) { backward_segment<decltype(type)>(desc, args, segment, kv_head, scratch); });
    }
  }
}

}  // namespace ida::cpu

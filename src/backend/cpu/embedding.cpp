#include "backend/cpu/embedding.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::EmbeddingBackwardArgs;
using ops::EmbeddingDesc;
using ops::EmbeddingForwardArgs;
using ops::Launch;

void copy_rows(const EmbeddingDesc& desc, const EmbeddingForwardArgs& args, Index begin, Index end) {
  const std::int32_t* ids = args.ids.as<std::int32_t>();
  const std::size_t size = static_cast<std::size_t>(desc.cols * dtype_size_bytes(desc.dtype));
  for (Index row = begin; row < end; ++row) {
    assert(ids[row] >= 0 && ids[row] < desc.vocab_size);
    std::memcpy(element_address(args.y, row, 0), element_address(args.table, ids[row], 0), size);
  }
}

void forward_definition(const EmbeddingDesc& desc, const EmbeddingForwardArgs& args, const Launch&) {
  copy_rows(desc, args, 0, desc.rows);
}

void forward_threaded(const EmbeddingDesc& desc, const EmbeddingForwardArgs& args, const Launch&) {
  parallel_for(desc.rows, rows_per_piece(desc.cols), [&](Index begin, Index end) { copy_rows(desc, args, begin, end); });
}

template <typename T>
void backward_plain(const EmbeddingDesc& desc, const EmbeddingBackwardArgs& args) {
  const std::int32_t* ids = args.ids.as<std::int32_t>();
  for (Index row = 0; row < desc.rows; ++row) {
    const T* grad = row_of<const T>(args.grad_y, row);
    float* sum = row_of<float>(args.grad_table, ids[row]);
    for (Index c = 0; c < desc.cols; ++c) sum[c] += to_f32(grad[c]) * ops::value_or_one(args.scale);
  }
}

void backward_definition(const EmbeddingDesc& desc, const EmbeddingBackwardArgs& args, const Launch&) {
  with_element_type(desc.dtype, [&](auto type) { backward_plain<decltype(type)>(desc, args); });
}

// A piece owns the ids of one residue and a range of columns, and goes through the tokens in order: no two pieces
// touch the same element, and the order of additions is that of the definition.
void backward_vector(const EmbeddingDesc& desc, const EmbeddingBackwardArgs& args, const Launch& launch) {
  constexpr Index kResidues = 16;
  constexpr Index kColumns = 256;
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  const std::int32_t* ids = args.ids.as<std::int32_t>();
  const Index column_pieces = (desc.cols + kColumns - 1) / kColumns;
  parallel_for(kResidues * column_pieces, 1, [&](Index first, Index last) {
    for (Index piece = first; piece < last; ++piece) {
      const Index residue = piece / column_pieces;
      const Index begin = piece % column_pieces * kColumns;
      const Index size = std::min(kColumns, desc.cols - begin);
      for (Index row = 0; row < desc.rows; ++row) {
        assert(ids[row] >= 0 && ids[row] < desc.vocab_size);
        if (ids[row] % kResidues != residue) continue;
        kernels.add_scaled(row_of<float>(args.grad_table, ids[row]) + begin, element_address(args.grad_y, row, begin),
                           desc.dtype, ops::value_or_one(args.scale), size);
      }
    }
  });
}

}  // namespace

ops::EmbeddingForwardList embedding_forward_impls() {
  return {{"cpu.threaded", any_shape<EmbeddingDesc>, nullptr, forward_threaded},
          {"cpu.definition", any_shape<EmbeddingDesc>, nullptr, forward_definition}};
}

ops::EmbeddingBackwardList embedding_backward_impls() {
  return {{"cpu.vector", any_shape<EmbeddingDesc>, nullptr, backward_vector},
          {"cpu.definition", any_shape<EmbeddingDesc>, nullptr, backward_definition}};
}

}  // namespace ida::cpu

#include "backend/cuda/kernels/embedding.h"

#include "backend/cuda/op_impls.h"
#include "backend/cuda/op_support.h"

namespace ida::cuda {
namespace {

void forward(const ops::EmbeddingDesc& desc, const ops::EmbeddingForwardArgs& args, const ops::Launch& launch) {
  check(launch_embedding_forward(desc.dtype,
                                 {.rows = desc.rows,
                                  .cols = desc.cols,
                                  .ids = args.ids.as<std::int32_t>(),
                                  .table = args.table.data,
                                  .table_stride = args.table.row_stride,
                                  .y = args.y.data,
                                  .y_stride = args.y.row_stride},
                                 stream_of(launch)),
        "embedding_forward");
}

std::int64_t backward_workspace_bytes(const ops::EmbeddingDesc& desc, const runtime::DeviceInfo&) {
  return embedding_backward_workspace(desc.rows, desc.vocab_size) * std::int64_t{sizeof(std::int32_t)};
}

void backward(const ops::EmbeddingDesc& desc, const ops::EmbeddingBackwardArgs& args, const ops::Launch& launch) {
  check(launch_embedding_backward(desc.dtype,
                                  {.rows = desc.rows,
                                   .cols = desc.cols,
                                   .vocab_size = desc.vocab_size,
                                   .ids = args.ids.as<std::int32_t>(),
                                   .grad_y = args.grad_y.data,
                                   .grad_y_stride = args.grad_y.row_stride,
                                   .grad_table = args.grad_table.as<float>(),
                                   .grad_table_stride = args.grad_table.row_stride,
                                   .scale = args.scale,
                                   .workspace = reinterpret_cast<std::int32_t*>(launch.workspace.data())},
                                  stream_of(launch)),
        "embedding_backward");
}

}  // namespace

ops::EmbeddingForwardList embedding_forward_impls() {
  return {{.name = "own.embedding", .supports = any_shape, .workspace_bytes = nullptr, .run = forward}};
}
ops::EmbeddingBackwardList embedding_backward_impls() {
  return {{.name = "own.embedding", .supports = any_shape, .workspace_bytes = backward_workspace_bytes, .run = backward}};
}

}  // namespace ida::cuda

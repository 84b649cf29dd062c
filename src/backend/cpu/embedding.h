// Embedding lookup and its gradient on the CPU (ops/embedding.h).
#pragma once
#include "ops/embedding.h"

namespace ida::cpu {

ops::EmbeddingForwardList embedding_forward_impls();
ops::EmbeddingBackwardList embedding_backward_impls();

}  // namespace ida::cpu

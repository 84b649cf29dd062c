// Attention on CUDA: cuDNN where documents are uniform, mma.sync in bf16, and a total form in f32 arithmetic.
#pragma once
#include "ops/attention.h"

namespace ida::cuda {

ops::AttentionForwardList attention_forward_impls();
ops::AttentionBackwardList attention_backward_impls();

}  // namespace ida::cuda

#pragma once
#include "ops/backend.h"
namespace ida::cuda {
ops::AttentionForwardList attention_forward_impls();
ops::AttentionBackwardList attention_backward_impls();
}  // namespace ida::cuda

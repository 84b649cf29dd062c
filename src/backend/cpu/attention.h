// Causal attention on the CPU (ops/attention.h).
#pragma once
#include "ops/attention.h"

namespace ida::cpu {

ops::AttentionForwardList attention_forward_impls();
ops::AttentionBackwardList attention_backward_impls();

}  // namespace ida::cpu

#include "backend/cuda/attention.h"
namespace ida::cuda {
ops::AttentionForwardList attention_forward_impls() { return {}; }
ops::AttentionBackwardList attention_backward_impls() { return {}; }
}  // namespace ida::cuda

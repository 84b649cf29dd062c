// cuDNN's attention as implementations (attention_cudnn.h).
#pragma once
#include "ops/attention.h"

namespace ida::cuda {

ops::Impl<ops::AttentionDesc, ops::AttentionForwardArgs> attention_forward_cudnn();
ops::Impl<ops::AttentionDesc, ops::AttentionBackwardArgs> attention_backward_cudnn();

}  // namespace ida::cuda

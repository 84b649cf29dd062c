// The plain definition of attention (ops/attention.h): loops over queries and keys, sums in f64.
#pragma once
#include "ops/attention.h"

namespace ida::cpu {

std::int64_t attention_forward_definition_workspace(const ops::AttentionDesc& desc, const runtime::DeviceInfo& device);
void attention_forward_definition(const ops::AttentionDesc& desc, const ops::AttentionForwardArgs& args,
                                  const ops::Launch& launch);
std::int64_t attention_backward_definition_workspace(const ops::AttentionDesc& desc, const runtime::DeviceInfo& device);
void attention_backward_definition(const ops::AttentionDesc& desc, const ops::AttentionBackwardArgs& args,
                                   const ops::Launch& launch);
void zero_rows(const TensorView& view);

}  // namespace ida::cpu

// Printable problems: one line a desc, for errors and plans.
#include <fmt/format.h>

#include "ops/backend.h"

namespace ida::ops {

std::string GemmDesc::to_string() const {
  const auto operand = [](DType dtype, const formats::QuantFormat& format) {
    return format.grid == formats::ScaleGrid::kNone ? std::string(dtype_name(dtype)) : formats::format_name(format);
  };
  return fmt::format("{}[{},{}] = {}{}[{},{}] x {}{}[{},{}]{}{}{}{}", dtype_name(c_dtype), m, n, operand(a_dtype, a_format),
                     a_transposed ? "^T" : "", m, k, operand(b_dtype, b_format), b_transposed ? "^T" : "", k, n,
                     accumulate ? " + C" : "", has_bias ? " + bias" : "", has_residual ? " + residual" : "",
                     fast_accumulation ? " fast" : "");
}
std::string RmsNormDesc::to_string() const {
  return fmt::format("{}[{}, {} x {}] eps {}", dtype_name(dtype), rows, num_groups, cols, eps);
}
std::string RopeDesc::to_string() const {
  return fmt::format("{}[{}, {} x {}] rotary {} {}", dtype_name(dtype), rows, num_heads, head_dim, rotary_dim,
                     direction == RopeDirection::kForward ? "forward" : "inverse");
}
std::string AttentionDesc::to_string() const {
  return fmt::format("{} q[{}, {} x {}] kv[{}, {} x {}] window {}", dtype_name(dtype), q_rows, num_heads, head_dim, kv_rows,
                     num_kv_heads, head_dim, window);
}
std::string SwigluDesc::to_string() const { return fmt::format("{}[{}, {}]", dtype_name(dtype), rows, cols); }
std::string EmbeddingDesc::to_string() const {
  return fmt::format("{}[{}, {}] of {} rows", dtype_name(dtype), rows, cols, vocab_size);
}
std::string CrossEntropyDesc::to_string() const {
  return fmt::format("{}[{}, {}]{}", dtype_name(dtype), rows, vocab_size, with_gradient ? " with gradient" : "");
}
std::string AddDesc::to_string() const { return fmt::format("{}[{}, {}]", dtype_name(dtype), rows, cols); }
std::string ConvertDesc::to_string() const {
  return fmt::format("{} -> {}[{}, {}]{}", dtype_name(from), dtype_name(to), rows, cols, accumulate ? " accumulated" : "");
}
std::string BiasGradDesc::to_string() const { return fmt::format("{}[{}, {}]", dtype_name(dtype), rows, cols); }
std::string FillDesc::to_string() const { return fmt::format("f32[{}]", size); }
std::string SumSquaresDesc::to_string() const { return fmt::format("f32[{}] of {} tensors", size, num_tensors); }
std::string OptimizerDesc::to_string() const {
  return fmt::format("{} [{}] of {} tensors, weights {} state {}", kind == OptimizerKind::kAdamW ? "adamw" : "lion", size,
                     num_tensors, dtype_name(weight_dtype), dtype_name(state_dtype));
}

}  // namespace ida::ops

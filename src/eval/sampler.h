// One token from one row of logits.
#pragma once
#include <cstdint>
#include <span>

namespace ida::eval {

struct SamplingOptions {
  double temperature = 0.0;  // 0: greedy, ties to the lowest id
  std::int64_t top_k = 0;    // 0: no limit
  double top_p = 1.0;        // smallest set of tokens whose probability reaches it
  std::uint64_t seed = 42;
};

// The choice is a pure function of the logits, the options and (stream, index): the sequence's number and its position.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t stream,
                          std::uint64_t index);

}  // namespace ida::eval

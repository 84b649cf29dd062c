#include "backend/cpu/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::CrossEntropyArgs;
using ops::CrossEntropyDesc;
using ops::Launch;

template <typename T>
void loss_plain(const CrossEntropyDesc& desc, const CrossEntropyArgs& args) {
  for (Index row = 0; row < desc.rows; ++row) {
    T* x = row_of<T>(args.logits, row);
    const std::int32_t label = args.labels.as<std::int32_t>()[row];
    float& nll = args.nll.as<float>()[row];
    if (label == ops::kIgnoreLabel) {
      nll = 0.0f;
      if (desc.with_gradient) std::fill_n(x, desc.vocab_size, from_f32<T>(0.0f));
      continue;
    }
    float max = -std::numeric_limits<float>::infinity();
    for (Index c = 0; c < desc.vocab_size; ++c) max = std::max(max, to_f32(x[c]));
    const double shift = std::isinf(max) && max < 0.0f ? 0.0 : static_cast<double>(max);
    double sum = 0.0;
    for (Index c = 0; c < desc.vocab_size; ++c) sum += std::exp(static_cast<double>(to_f32(x[c])) - shift);
    nll = static_cast<float>(std::log(sum) + shift - static_cast<double>(to_f32(x[label])));
    if (!desc.with_gradient) continue;
    for (Index c = 0; c < desc.vocab_size; ++c) {
      const double p = std::exp(static_cast<double>(to_f32(x[c])) - shift) / sum;
      x[c] = from_f32<T>(static_cast<float>(p - (c == label ? 1.0 : 0.0)) * ops::value_or_one(args.grad_scale));
    }
  }
}

void loss_definition(const CrossEntropyDesc& desc, const CrossEntropyArgs& args, const Launch&) {
  with_element_type(desc.dtype, [&](auto type) { loss_plain<decltype(type)>(desc, args); });
}

void loss_online(const CrossEntropyDesc& desc, const CrossEntropyArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  parallel_for(desc.rows, rows_per_piece(desc.vocab_size), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      [[maybe_unused]] const std::int32_t label = args.labels.as<std::int32_t>()[row];
      assert(label == ops::kIgnoreLabel || (label >= 0 && label < desc.vocab_size));
    }
    kernels.cross_entropy(desc, args, begin, end);
  });
}

}  // namespace

ops::CrossEntropyList cross_entropy_impls() {
  return {{"cpu.online", any_shape<CrossEntropyDesc>, nullptr, loss_online},
          {"cpu.definition", any_shape<CrossEntropyDesc>, nullptr, loss_definition}};
}

}  // namespace ida::cpu

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/simd.h"

namespace {

using namespace ida;

// Logits of a block stay in the first-level cache between its maximum and its exponentials, so that a row is read
// from memory once for its sum.
constexpr std::int64_t kBlock = 1024;

struct Softmax {
  float max = -__builtin_inff();
  double sum = 0.0;  // of e^(x - max)
  float shift() const { return max == -__builtin_inff() ? 0.0f : max; }
};

template <typename T>
void add_block(Softmax& softmax, const T* x, std::int64_t size) {
  F32 best = broadcast(-__builtin_inff());
  for_vectors(size, [&](std::int64_t c, auto lanes) {
    F32 v = load(x + c, lanes);
    if constexpr (!__is_same(decltype(lanes), Full)) {
      for (int i = lanes.count; i < kWidth; ++i) v[i] = -__builtin_inff();
    }
    best = max(v, best);
  });
  const float block_max = reduce_max(best);
  if (block_max > softmax.max) {
    softmax.sum *= __builtin_exp(static_cast<double>(softmax.max) - static_cast<double>(block_max));
    softmax.max = block_max;
  }
  const float shift = softmax.shift();
  softmax.sum += static_cast<double>(sum_vectors(size, [&](std::int64_t c, auto lanes) {
    F32 v = load(x + c, lanes) - shift;
    if constexpr (!__is_same(decltype(lanes), Full)) {
      for (int i = lanes.count; i < kWidth; ++i) v[i] = -__builtin_inff();
    }
    return exp_nonpositive(v);
  }));
}

template <typename T>
void loss_rows(const ops::CrossEntropyDesc& desc, const ops::CrossEntropyArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t vocab = desc.vocab_size;
  for (std::int64_t row = begin; row < end; ++row) {
    T* x = row_of<T>(args.logits, row);
    const std::int32_t label = static_cast<const std::int32_t*>(args.labels.data)[row];
    float& nll = static_cast<float*>(args.nll.data)[row];
    if (label == ops::kIgnoreLabel) {
      nll = 0.0f;
      if (desc.with_gradient) __builtin_memset(x, 0, static_cast<std::size_t>(vocab) * sizeof(T));
      continue;
    }
    Softmax softmax;
    for (std::int64_t c = 0; c < vocab; c += kBlock) add_block(softmax, x + c, vocab - c < kBlock ? vocab - c : kBlock);
    const F32 at_label = load(x + label, Part{1});
    nll = static_cast<float>(__builtin_log(softmax.sum) +
                             (static_cast<double>(softmax.shift()) - static_cast<double>(at_label[0])));
    if (!desc.with_gradient) continue;
    const float inverse = static_cast<float>(1.0 / softmax.sum);
    const float shift = softmax.shift();
    const float grad_scale = ops::value_or_one(args.grad_scale);
    for_vectors(vocab, [&](std::int64_t c, auto lanes) {
      store(x + c, exp_nonpositive(load(x + c, lanes) - shift) * inverse * grad_scale, lanes);
    });
    const F32 p = exp_nonpositive(at_label - shift) * inverse;
    store(x + label, (p - 1.0f) * grad_scale, Part{1});
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void cross_entropy(const ops::CrossEntropyDesc& desc, const ops::CrossEntropyArgs& args, Index begin, Index end) {
  with_element_type(desc.dtype, [&](auto type) { loss_rows<decltype(type)>(desc, args, begin, end); });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

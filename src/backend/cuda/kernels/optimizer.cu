// One pass and one launch: bytes an element with f32 state and bf16 weights: AdamW 4 + 3 x 8 + 2 = 30, Lion 22. Arithmetic
// follows the CPU definition operation by operation, without contraction, so that both give the same bits.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/optimizer.h"
#include "backend/cuda/kernels/tensor_ranges.cuh"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElems = 4;  // a thread: one 16-byte access of each f32 tensor

struct Scalars {
  float lr, beta1, beta2, eps, bias_correction1, bias_correction2, grad_scale, weight_decay;
};

__device__ float decayed(float p, const Scalars& s, bool decay) {
  return decay ? __fmul_rn(p, __fsub_rn(1.0f, __fmul_rn(s.lr, s.weight_decay))) : p;
}
__device__ float blend(float beta, float old, float fresh) {
  return __fadd_rn(__fmul_rn(beta, old), __fmul_rn(__fsub_rn(1.0f, beta), fresh));
}

struct AdamW {
  static constexpr bool kSecondMoment = true;
  __device__ static float step(float p, float g, float& m, float& v, const Scalars& s) {
    m = blend(s.beta1, m, g);
    v = blend(s.beta2, v, __fmul_rn(g, g));
    const float denominator = __fadd_rn(__fsqrt_rn(__fdiv_rn(v, s.bias_correction2)), s.eps);
    return __fsub_rn(p, __fdiv_rn(__fmul_rn(__fdiv_rn(m, s.bias_correction1), s.lr), denominator));
  }
};

struct Lion {
  static constexpr bool kSecondMoment = false;
  __device__ static float step(float p, float g, float& m, float&, const Scalars& s) {
    const float direction = blend(s.beta1, m, g);
    const float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : direction;  // NaN passes through
    m = blend(s.beta2, m, g);
    return __fsub_rn(p, __fmul_rn(s.lr, sign));
  }
};

// N elements from `begin` on.
template <typename Rule, typename Weight, typename State, int N>
__device__ void update(const OptimizerStep& a, const Scalars& s, bool decay, std::int64_t begin) {
  const Vec<float, N> grad = load_vec<N>(a.grad + begin);
  Vec<float, N> master = load_vec<N>(a.master + begin);
  Vec<State, N> m = load_vec<N>(static_cast<State*>(a.m) + begin);
  Vec<State, N> v{};
  if constexpr (Rule::kSecondMoment) v = load_vec<N>(static_cast<State*>(a.v) + begin);
  Vec<Weight, N> weight;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    float m_i = to_float(m.at[i]);
    float v_i = to_float(v.at[i]);
    const float g = __fmul_rn(grad.at[i], s.grad_scale);
    master.at[i] = Rule::step(decayed(master.at[i], s, decay), g, m_i, v_i, s);
    m.at[i] = from_float<State>(m_i);
    v.at[i] = from_float<State>(v_i);
    weight.at[i] = from_float<Weight>(master.at[i]);
  }
  store_vec<N>(a.master + begin, master);
  store_vec<N>(static_cast<State*>(a.m) + begin, m);
  if constexpr (Rule::kSecondMoment) store_vec<N>(static_cast<State*>(a.v) + begin, v);
  store_vec<N>(static_cast<Weight*>(a.weight) + begin, weight);
}

template <typename Rule, typename Weight, typename State>
__global__ void __launch_bounds__(kThreads) optimizer_kernel(OptimizerStep a) {
  const TensorRange range = a.ranges[tensor_of_block(a.ranges, a.num_tensors, blockIdx.x)];
  const Scalars s = *reinterpret_cast<const Scalars*>(a.scalars);
  const bool decay = range.decay != 0;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) - range.first_block) * kRangeBlock;
  const std::int64_t begin = range.offset + first;
  const std::int64_t end = range.offset + (range.size - first < kRangeBlock ? range.size : first + kRangeBlock);
  const bool vectors = a.bases_aligned && range.offset % kElems == 0;
  for (std::int64_t i = begin + kElems * static_cast<int>(threadIdx.x); i < end; i += kElems * kThreads) {
    if (vectors && i + kElems <= end) {
      update<Rule, Weight, State, kElems>(a, s, decay, i);
    } else {
      for (std::int64_t k = i; k < i + kElems && k < end; ++k) update<Rule, Weight, State, 1>(a, s, decay, k);
    }
  }
}

template <typename Rule>
cudaError_t launch(DType weight_dtype, DType state_dtype, OptimizerStep a, cudaStream_t stream) {
  if (a.num_blocks == 0) return cudaSuccess;
  a.bases_aligned = aligned_to(a.grad, 16) && aligned_to(a.master, 16) && aligned_to(a.m, 16) && aligned_to(a.v, 16) &&
                    aligned_to(a.weight, 16);
  return with_float_type(weight_dtype, [&]<typename Weight>() {
    return with_float_type(state_dtype, [&]<typename State>() {
      return launch_kernel(optimizer_kernel<Rule, Weight, State>, dim3(static_cast<unsigned>(a.num_blocks)), kThreads, 0,
                           stream, a);
    });
  });
}

}  // namespace

cudaError_t launch_adamw(DType weight_dtype, DType state_dtype, const OptimizerStep& args, cudaStream_t stream) {
  return launch<AdamW>(weight_dtype, state_dtype, args, stream);
}
cudaError_t launch_lion(DType weight_dtype, DType state_dtype, const OptimizerStep& args, cudaStream_t stream) {
  return launch<Lion>(weight_dtype, state_dtype, args, stream);
}

}  // namespace ida::cuda

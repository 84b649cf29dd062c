// One thread, N neighbouring elements. Bytes: forward reads gate and up and writes y; backward reads grad_y, gate and up
// and writes two gradients.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/producers.cuh"
#include "backend/cuda/kernels/swiglu.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, int N, bool kAmax>
__global__ void __launch_bounds__(kThreads) swiglu_forward_kernel(SwigluForward a) {
  float most = 0.0f;
  for_each_vec<kThreads, N>(a.rows, a.cols, [&](std::int64_t row, std::int64_t column) {
    const T* gate_row = static_cast<const T*>(a.gate_up) + row * a.gate_up_stride + column;
    const Vec<T, N> gate = load_vec<N>(gate_row);
    const Vec<T, N> up = load_vec<N>(gate_row + a.cols);
    Vec<T, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      y.at[j] = from_float<T>(swiglu_value(to_float(gate.at[j]), to_float(up.at[j])));
      if constexpr (kAmax) most = max_magnitude(most, to_float(y.at[j]));
    }
    if (a.y != nullptr) store_vec<N>(static_cast<T*>(a.y) + row * a.y_stride + column, y);
  });
  if constexpr (kAmax) raise_amax(a.amax, most);
}

template <typename T, int N, bool kAmax>
__global__ void __launch_bounds__(kThreads) swiglu_backward_kernel(SwigluBackward a) {
  float most = 0.0f;
  for_each_vec<kThreads, N>(a.rows, a.cols, [&](std::int64_t row, std::int64_t column) {
    const T* gate_row = static_cast<const T*>(a.gate_up) + row * a.gate_up_stride + column;
    const Vec<T, N> gate = load_vec<N>(gate_row);
    const Vec<T, N> up = load_vec<N>(gate_row + a.cols);
    const Vec<T, N> grad_y = load_vec<N>(static_cast<const T*>(a.grad_y) + row * a.grad_y_stride + column);
    Vec<T, N> grad_gate;
    Vec<T, N> grad_up;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float z = to_float(gate.at[j]);
      const float g = to_float(grad_y.at[j]);
      grad_gate.at[j] = from_float<T>(swiglu_grad_gate(g, z, to_float(up.at[j])));
      grad_up.at[j] = from_float<T>(swiglu_grad_up(g, z));
      if constexpr (kAmax) most = max_magnitude(max_magnitude(most, to_float(grad_gate.at[j])), to_float(grad_up.at[j]));
    }
    if (a.grad_gate_up == nullptr) return;
    T* out = static_cast<T*>(a.grad_gate_up) + row * a.grad_gate_up_stride + column;
    store_vec<N>(out, grad_gate);
    store_vec<N>(out + a.cols, grad_up);
  });
  if constexpr (kAmax) raise_amax(a.amax, most);
}

// The kernel for the widest access that the operands allow, in vectors of N elements.
template <template <typename, int, bool> class Kernel, typename T, typename Args>
cudaError_t launch(const Args& a, bool vectors, cudaStream_t stream) {
  constexpr int n = kVecElems<T>;
  const auto go = [&](auto kernel, std::int64_t items) {
    return launch_kernel(kernel, dim3(grid_for(items, kThreads)), kThreads, 0, stream, a);
  };
  if (a.amax != nullptr)
    return vectors ? go(Kernel<T, n, true>::function, a.rows * a.cols / n)
                   : go(Kernel<T, 1, true>::function, a.rows * a.cols);
  return vectors ? go(Kernel<T, n, false>::function, a.rows * a.cols / n)
                 : go(Kernel<T, 1, false>::function, a.rows * a.cols);
}
template <typename T, int N, bool kAmax>
struct Forward {
  static constexpr auto function = swiglu_forward_kernel<T, N, kAmax>;
};
template <typename T, int N, bool kAmax>
struct Backward {
  static constexpr auto function = swiglu_backward_kernel<T, N, kAmax>;
};

}  // namespace

cudaError_t launch_swiglu_forward(DType dtype, const SwigluForward& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    const bool vectors = a.cols % n == 0 && a.gate_up_stride % n == 0 && a.y_stride % n == 0 && aligned_to(a.gate_up, 16) &&
                         aligned_to(a.y, 16);
    return launch<Forward, T>(a, vectors, stream);
  });
}

cudaError_t launch_swiglu_backward(DType dtype, const SwigluBackward& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    const bool vectors = a.cols % n == 0 && a.gate_up_stride % n == 0 && a.grad_y_stride % n == 0 &&
                         a.grad_gate_up_stride % n == 0 && aligned_to(a.gate_up, 16) && aligned_to(a.grad_y, 16) &&
                         aligned_to(a.grad_gate_up, 16);
    return launch<Backward, T>(a, vectors, stream);
  });
}

}  // namespace ida::cuda

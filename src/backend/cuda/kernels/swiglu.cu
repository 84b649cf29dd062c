// One thread, N neighbouring elements. Bytes: forward reads gate and up and writes y; backward reads grad_y, gate and up
// and writes two gradients.
#include "backend/cuda/device/arithmetic.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/swiglu.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

// 1 / (1 + 2^(-z log2(e))). An exact exponential and division would take more of the multiprocessor than the bytes of an
// element do of memory. ex2 and rcp are off by 2 and 1 units in the last place and rounding z log2(e) by |z| 2^-24 of the
// exponential, which counts for little where that is small beside 1 and, where z is far below 0, is 1e-6 of a y near 0.
__device__ float sigmoid(float z) {
  constexpr float kLog2E = 1.4426950408889634f;
  return rcp_approx(1.0f + ex2_approx(-kLog2E * z));
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) swiglu_forward_kernel(SwigluForward a) {
  for_each_vec<kThreads, N>(a.rows, a.cols, [&](std::int64_t row, std::int64_t column) {
    const T* gate_row = static_cast<const T*>(a.gate_up) + row * a.gate_up_stride + column;
    const Vec<T, N> gate = load_vec<N>(gate_row);
    const Vec<T, N> up = load_vec<N>(gate_row + a.cols);
    Vec<T, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float z = to_float(gate.at[j]);
      y.at[j] = from_float<T>(z * sigmoid(z) * to_float(up.at[j]));
    }
    store_vec<N>(static_cast<T*>(a.y) + row * a.y_stride + column, y);
  });
}

// d silu(z) / dz = s (1 + z (1 - s)), s = sigmoid(z).
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) swiglu_backward_kernel(SwigluBackward a) {
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
      const float s = sigmoid(z);
      const float g = to_float(grad_y.at[j]);
      grad_gate.at[j] = from_float<T>(g * to_float(up.at[j]) * s * (1.0f + z * (1.0f - s)));
      grad_up.at[j] = from_float<T>(g * z * s);
    }
    T* out = static_cast<T*>(a.grad_gate_up) + row * a.grad_gate_up_stride + column;
    store_vec<N>(out, grad_gate);
    store_vec<N>(out + a.cols, grad_up);
  });
}

}  // namespace

cudaError_t launch_swiglu_forward(DType dtype, const SwigluForward& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    const bool vectors = a.cols % n == 0 && a.gate_up_stride % n == 0 && a.y_stride % n == 0 && aligned_to(a.gate_up, 16) &&
                         aligned_to(a.y, 16);
    if (vectors)
      swiglu_forward_kernel<T, n><<<grid_for(a.rows * a.cols / n, kThreads), kThreads, 0, stream>>>(a);
    else
      swiglu_forward_kernel<T, 1><<<grid_for(a.rows * a.cols, kThreads), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

cudaError_t launch_swiglu_backward(DType dtype, const SwigluBackward& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    const bool vectors = a.cols % n == 0 && a.gate_up_stride % n == 0 && a.grad_y_stride % n == 0 &&
                         a.grad_gate_up_stride % n == 0 && aligned_to(a.gate_up, 16) && aligned_to(a.grad_y, 16) &&
                         aligned_to(a.grad_gate_up, 16);
    if (vectors)
      swiglu_backward_kernel<T, n><<<grid_for(a.rows * a.cols / n, kThreads), kThreads, 0, stream>>>(a);
    else
      swiglu_backward_kernel<T, 1><<<grid_for(a.rows * a.cols, kThreads), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace ida::cuda

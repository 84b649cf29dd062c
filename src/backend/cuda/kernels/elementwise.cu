#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/elementwise.h"

namespace ida::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    add_kernel(std::int64_t rows, std::int64_t cols, Strided a, Strided b, Strided y) {
  for_each_vec<kThreads, N>(rows, cols, [&](std::int64_t row, std::int64_t column) {
    const Vec<T, N> va = load_vec<N>(static_cast<const T*>(a.data) + row * a.stride + column);
    const Vec<T, N> vb = load_vec<N>(static_cast<const T*>(b.data) + row * b.stride + column);
    Vec<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = from_float<T>(to_float(va.at[j]) + to_float(vb.at[j]));
    store_vec<N>(static_cast<T*>(y.data) + row * y.stride + column, out);
  });
}

template <typename From, typename To, int N>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(bool accumulate, std::int64_t rows, std::int64_t cols, Strided x, Strided y) {
  for_each_vec<kThreads, N>(rows, cols, [&](std::int64_t row, std::int64_t column) {
    const Vec<From, N> v = load_vec<N>(static_cast<const From*>(x.data) + row * x.stride + column);
    To* target = static_cast<To*>(y.data) + row * y.stride + column;
    Vec<To, N> out;
    if (accumulate) out = load_vec<N>(target);
#pragma unroll
    for (int j = 0; j < N; ++j)
      out.at[j] = from_float<To>(accumulate ? to_float(out.at[j]) + to_float(v.at[j]) : to_float(v.at[j]));
    store_vec<N>(target, out);
  });
}

constexpr std::int64_t kBiasRowsPerBlock = 512;

template <typename T>
__global__ void __launch_bounds__(kThreads) bias_grad_kernel(BiasGrad a) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= a.cols) return;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * kBiasRowsPerBlock;
  const std::int64_t end = min(begin + kBiasRowsPerBlock, a.rows);
  float sum = 0.0f;
  for (std::int64_t row = begin; row < end; ++row)
    sum += to_float(static_cast<const T*>(a.grad_y)[row * a.grad_y_stride + column]);
  a.partials[blockIdx.y * a.cols + column] = sum;
}

__global__ void __launch_bounds__(kThreads) bias_grad_reduce_kernel(BiasGrad a, std::int64_t blocks) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= a.cols) return;
  float sum = 0.0f;
  for (std::int64_t b = 0; b < blocks; ++b) sum += a.partials[b * a.cols + column];
  a.grad_bias[column] += value_or_one(a.scale) * sum;
}

constexpr std::int64_t kSquaresPerBlock = 1 << 16;

__global__ void __launch_bounds__(kThreads) sum_squares_kernel(const float* x, std::int64_t size, double* partials) {
  __shared__ double shared[kThreads / kWarpSize];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kSquaresPerBlock;
  const std::int64_t end = min(begin + kSquaresPerBlock, size);
  double sum = 0.0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) sum += static_cast<double>(x[i]) * x[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    sum_partials_kernel(const double* partials, std::int64_t count, double* result) {
  __shared__ double shared[kThreads / kWarpSize];
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) *result = sum;
}

bool takes_vectors(std::int64_t cols, std::int64_t n, std::int64_t bytes, std::initializer_list<Strided> views) {
  return cols % n == 0 && std::all_of(views.begin(), views.end(),
                                      [&](const Strided& v) { return v.stride % n == 0 && aligned_to(v.data, bytes); });
}

template <typename From, typename To>
cudaError_t convert(bool accumulate, std::int64_t rows, std::int64_t cols, Strided x, Strided y, cudaStream_t stream) {
  constexpr int n = std::min(kVecElems<From>, kVecElems<To>);
  if (takes_vectors(cols, n, 16, {x, y}))
    convert_kernel<From, To, n><<<grid_for(rows * cols / n, kThreads), kThreads, 0, stream>>>(accumulate, rows, cols, x, y);
  else
    convert_kernel<From, To, 1><<<grid_for(rows * cols, kThreads), kThreads, 0, stream>>>(accumulate, rows, cols, x, y);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_add(DType dtype, std::int64_t rows, std::int64_t cols, Strided a, Strided b, Strided y,
                       cudaStream_t stream) {
  if (rows * cols == 0) return cudaSuccess;
  return with_float_type(dtype, [&]<typename T>() {
    constexpr int n = kVecElems<T>;
    if (takes_vectors(cols, n, 16, {a, b, y}))
      add_kernel<T, n><<<grid_for(rows * cols / n, kThreads), kThreads, 0, stream>>>(rows, cols, a, b, y);
    else
      add_kernel<T, 1><<<grid_for(rows * cols, kThreads), kThreads, 0, stream>>>(rows, cols, a, b, y);
    return cudaGetLastError();
  });
}

cudaError_t launch_convert(DType from, DType to, bool accumulate, std::int64_t rows, std::int64_t cols, Strided x,
                           Strided y, cudaStream_t stream) {
  if (rows * cols == 0) return cudaSuccess;
  return with_float_type(from, [&]<typename From>() {
    return with_float_type(to, [&]<typename To>() { return convert<From, To>(accumulate, rows, cols, x, y, stream); });
  });
}

std::int64_t bias_grad_blocks(std::int64_t rows) { return std::max<std::int64_t>(ceil_div(rows, kBiasRowsPerBlock), 1); }

cudaError_t launch_bias_grad(DType dtype, const BiasGrad& a, cudaStream_t stream) {
  if (a.rows * a.cols == 0) return cudaSuccess;
  const std::int64_t blocks = bias_grad_blocks(a.rows);
  const dim3 grid(grid_for(a.cols, kThreads), static_cast<unsigned>(blocks));
  const cudaError_t launched = with_float_type(dtype, [&]<typename T>() {
    bias_grad_kernel<T><<<grid, kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
  if (launched != cudaSuccess) return launched;
  bias_grad_reduce_kernel<<<grid_for(a.cols, kThreads), kThreads, 0, stream>>>(a, blocks);
  return cudaGetLastError();
}

std::int64_t sum_squares_blocks(std::int64_t size) { return std::max<std::int64_t>(ceil_div(size, kSquaresPerBlock), 1); }

cudaError_t launch_sum_squares(const float* x, std::int64_t size, double* partials, double* result, cudaStream_t stream) {
  const std::int64_t blocks = sum_squares_blocks(size);
  sum_squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(x, size, partials);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  sum_partials_kernel<<<1, kThreads, 0, stream>>>(partials, blocks, result);
  return cudaGetLastError();
}

}  // namespace ida::cuda

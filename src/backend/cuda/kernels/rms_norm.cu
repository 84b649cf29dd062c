// One warp a vector; its elements stay in registers between the two passes over them. Bytes: forward reads x and writes
// y; backward reads grad_y, x (and grad_x when adding) and writes grad_x.
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/rms_norm.h"

namespace ida::cuda {
namespace {

constexpr int kForwardThreads = 256;
constexpr int kBackwardThreads = 128;
constexpr int kBackwardWarps = kBackwardThreads / kWarpSize;
constexpr int kBackwardBlocksPerSm = 4;

template <typename T, int N>
struct Row {
  const T* base;
  std::int64_t cols;
  __device__ Vec<T, N> at(int chunk) const {
    const std::int64_t begin = (static_cast<std::int64_t>(chunk) * kWarpSize + threadIdx.x % kWarpSize) * N;
    Vec<T, N> v{};
    if (begin < cols) v = load_vec<N>(base + begin);
    return v;
  }
};

// CHUNKS vectors of N elements a lane cover a row: CHUNKS * 32 * N >= cols.
template <typename T, int N, int CHUNKS>
__global__ void __launch_bounds__(kForwardThreads) rms_norm_forward_kernel(RmsNormForward a) {
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * kForwardThreads + threadIdx.x) / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  if (warp >= a.shape.items()) return;
  const std::int64_t row = warp / a.shape.groups;
  const std::int64_t column = warp % a.shape.groups * a.shape.cols;
  const Row<T, N> x{static_cast<const T*>(a.x) + row * a.x_stride + column, a.shape.cols};
  const Row<T, N> w{static_cast<const T*>(a.w), a.shape.cols};
  T* y = static_cast<T*>(a.y) + row * a.y_stride + column;
  Vec<T, N> kept[CHUNKS];
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) kept[c] = x.at(c);
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum += to_float(kept[c].at[i]) * to_float(kept[c].at[i]);
  }
  const float rstd = rsqrtf(warp_sum(sum) / static_cast<float>(a.shape.cols) + a.eps);
  if (lane == 0) a.rstd[warp] = rstd;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    const std::int64_t begin = (static_cast<std::int64_t>(c) * kWarpSize + lane) * N;
    if (begin >= a.shape.cols) break;
    const Vec<T, N> weight = w.at(c);
    Vec<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.at[i] = from_float<T>(to_float(kept[c].at[i]) * rstd * to_float(weight.at[i]));
    store_vec<N>(y + begin, out);
  }
}

// Any width: elements are read twice, one at a time.
template <typename T>
__global__ void __launch_bounds__(kForwardThreads) rms_norm_forward_any_kernel(RmsNormForward a) {
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * kForwardThreads + threadIdx.x) / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  if (warp >= a.shape.items()) return;
  const std::int64_t row = warp / a.shape.groups;
  const std::int64_t column = warp % a.shape.groups * a.shape.cols;
  const T* x = static_cast<const T*>(a.x) + row * a.x_stride + column;
  const T* w = static_cast<const T*>(a.w);
  T* y = static_cast<T*>(a.y) + row * a.y_stride + column;
  float sum = 0.0f;
  for (std::int64_t i = lane; i < a.shape.cols; i += kWarpSize) sum += to_float(x[i]) * to_float(x[i]);
  const float rstd = rsqrtf(warp_sum(sum) / static_cast<float>(a.shape.cols) + a.eps);
  if (lane == 0) a.rstd[warp] = rstd;
  for (std::int64_t i = lane; i < a.shape.cols; i += kWarpSize)
    y[i] = from_float<T>(to_float(x[i]) * rstd * to_float(w[i]));
}

// WARPS warps share a row, kBackwardWarps / WARPS rows a block and turn. grad_w of a thread's columns stays in registers
// over the turns; the block's rows are added in order at the end, the blocks by reduce_partials_kernel.
template <typename T, int N, int WARPS, int CHUNKS>
__global__ void __launch_bounds__(kBackwardThreads) rms_norm_backward_kernel(RmsNormBackward a) {
  extern __shared__ float shared[];  // [kBackwardWarps / WARPS, cols]
  __shared__ float warp_dots[2][kBackwardWarps];
  constexpr int kRows = kBackwardWarps / WARPS;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int part = warp % WARPS * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize;  // of WARPS * 32 in the row
  const std::int64_t cols = a.shape.cols;
  const std::int64_t items = a.shape.items();
  const T* w = static_cast<const T*>(a.w);
  float grad_w[CHUNKS * N] = {};
  int turn = 0;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows; first < items;
       first += static_cast<std::int64_t>(gridDim.x) * kRows, turn ^= 1) {
    const std::int64_t item = first + warp / WARPS;
    const bool present = item < items;
    const std::int64_t row = item / a.shape.groups;
    const std::int64_t column = item % a.shape.groups * cols;
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride + column;
    const T* dy = static_cast<const T*>(a.grad_y) + row * a.grad_y_stride + column;
    T* grad_x = static_cast<T*>(a.grad_x) + row * a.grad_x_stride + column;
    Vec<T, N> kept_x[CHUNKS];
    Vec<T, N> kept_dy[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const std::int64_t at = (static_cast<std::int64_t>(c) * WARPS * kWarpSize + part) * N;
      const bool inside = present && at < cols;
      kept_x[c] = inside ? load_vec<N>(x + at) : Vec<T, N>{};
      kept_dy[c] = inside ? load_vec<N>(dy + at) : Vec<T, N>{};
    }
    const float rstd = present ? a.rstd[item] : 0.0f;
    float dot = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const std::int64_t at = (static_cast<std::int64_t>(c) * WARPS * kWarpSize + part) * N;
      const Vec<T, N> weight = at < cols ? load_vec<N>(w + at) : Vec<T, N>{};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float g_xhat = to_float(kept_dy[c].at[i]) * to_float(kept_x[c].at[i]) * rstd;
        dot += to_float(weight.at[i]) * g_xhat;
        grad_w[c * N + i] += g_xhat;
      }
    }
    dot = warp_sum(dot);
    if constexpr (WARPS > 1) {  // two sets of sums: one barrier a turn is enough
      if (threadIdx.x % kWarpSize == 0) warp_dots[turn][warp] = dot;
      __syncthreads();
      dot = 0.0f;
#pragma unroll
      for (int k = 0; k < WARPS; ++k) dot += warp_dots[turn][warp / WARPS * WARPS + k];
    }
    const float mean = dot / static_cast<float>(cols);
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const std::int64_t at = (static_cast<std::int64_t>(c) * WARPS * kWarpSize + part) * N;
      if (!present || at >= cols) continue;
      const Vec<T, N> weight = load_vec<N>(w + at);
      const Vec<T, N> old = a.add_to_grad_x ? load_vec<N>(grad_x + at) : Vec<T, N>{};
      Vec<T, N> out;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float xhat = to_float(kept_x[c].at[i]) * rstd;
        const float g = rstd * (to_float(weight.at[i]) * to_float(kept_dy[c].at[i]) - xhat * mean);
        out.at[i] = from_float<T>(a.add_to_grad_x ? g + to_float(old.at[i]) : g);
      }
      store_vec<N>(grad_x + at, out);
    }
  }
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    const std::int64_t at = (static_cast<std::int64_t>(c) * WARPS * kWarpSize + part) * N;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (at + i < cols) shared[warp / WARPS * cols + at + i] = grad_w[c * N + i];
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < cols; i += kBackwardThreads) {
    float sum = 0.0f;
    for (int k = 0; k < kRows; ++k) sum += shared[k * cols + i];
    a.partials[blockIdx.x * cols + i] = sum;
  }
}

// Any width: one block an item and turn, grad_w through the block's row of partials.
template <typename T>
__global__ void __launch_bounds__(kBackwardThreads) rms_norm_backward_any_kernel(RmsNormBackward a) {
  __shared__ float scratch[kBackwardWarps];
  const std::int64_t cols = a.shape.cols;
  const T* w = static_cast<const T*>(a.w);
  float* partial = a.partials + blockIdx.x * cols;
  for (std::int64_t i = threadIdx.x; i < cols; i += kBackwardThreads) partial[i] = 0.0f;
  for (std::int64_t item = blockIdx.x; item < a.shape.items(); item += gridDim.x) {
    const std::int64_t row = item / a.shape.groups;
    const std::int64_t column = item % a.shape.groups * cols;
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride + column;
    const T* dy = static_cast<const T*>(a.grad_y) + row * a.grad_y_stride + column;
    T* grad_x = static_cast<T*>(a.grad_x) + row * a.grad_x_stride + column;
    const float rstd = a.rstd[item];
    float dot = 0.0f;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBackwardThreads)
      dot += to_float(w[i]) * to_float(dy[i]) * to_float(x[i]) * rstd;
    const float mean = block_sum(dot, scratch) / static_cast<float>(cols);
    for (std::int64_t i = threadIdx.x; i < cols; i += kBackwardThreads) {
      const float xhat = to_float(x[i]) * rstd;
      const float g = to_float(dy[i]);
      partial[i] += g * xhat;
      float out = rstd * (to_float(w[i]) * g - xhat * mean);
      if (a.add_to_grad_x) out += to_float(grad_x[i]);
      grad_x[i] = from_float<T>(out);
    }
  }
}

// grad_w[c] += scale * sum of partials[., c]: a warp sums 32 columns' blocks in a fixed interleaved order.
constexpr int kReduceRows = 8;
__global__ void __launch_bounds__(kReduceRows* kWarpSize)
    reduce_partials_kernel(const float* partials, std::int64_t num_blocks, std::int64_t cols, const float* scale,
                           float* grad_w) {
  __shared__ float shared[kReduceRows][kWarpSize];
  const int lane = threadIdx.x % kWarpSize;
  const int part = threadIdx.x / kWarpSize;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarpSize + lane;
  float sum = 0.0f;
  if (column < cols)
    for (std::int64_t b = part; b < num_blocks; b += kReduceRows) sum += partials[b * cols + column];
  shared[part][lane] = sum;
  __syncthreads();
  if (part != 0 || column >= cols) return;
  float total = 0.0f;
  for (int i = 0; i < kReduceRows; ++i) total += shared[i][lane];
  grad_w[column] += value_or_one(scale) * total;
}

// The table of widths: chunks of 32 vectors that a warp keeps.
template <typename T, typename F>
cudaError_t with_chunks(std::int64_t cols, F&& f) {
  const std::int64_t chunks = ceil_div(cols, kWarpSize * kVecElems<T>);
  if (chunks <= 1) return f.template operator()<1>();
  if (chunks <= 2) return f.template operator()<2>();
  if (chunks <= 3) return f.template operator()<3>();
  if (chunks <= 4) return f.template operator()<4>();
  if (chunks <= 6) return f.template operator()<6>();
  return f.template operator()<8>();
}

// Backward keeps three tensors, so wide rows are shared by the warps of a block.
template <typename T, typename F>
cudaError_t with_backward_shape(std::int64_t cols, F&& f) {
  const std::int64_t chunks = ceil_div(cols, kWarpSize * kVecElems<T>);
  if (chunks <= 1) return f.template operator()<1, 1>();
  if (chunks <= 2) return f.template operator()<1, 2>();
  if (chunks <= 3) return f.template operator()<1, 3>();
  if (chunks <= 4) return f.template operator()<2, 2>();
  return f.template operator()<4, 2>();
}

// A lane keeps at most 64 bf16 or 32 f32 elements of a tensor in registers.
template <typename T>
bool takes_vectors(std::int64_t cols, std::initializer_list<const void*> pointers,
                   std::initializer_list<std::int64_t> strides) {
  constexpr std::int64_t n = kVecElems<T>;
  if (cols % n != 0 || cols > 8 * kWarpSize * n) return false;
  return std::all_of(pointers.begin(), pointers.end(), [](const void* p) { return aligned_to(p, 16); }) &&
         std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s % n == 0; });
}

}  // namespace

cudaError_t launch_rms_norm_forward(DType dtype, const RmsNormForward& a, cudaStream_t stream) {
  if (a.shape.items() == 0) return cudaSuccess;
  const unsigned grid = grid_for(a.shape.items(), kForwardThreads / kWarpSize);
  return with_float_type(dtype, [&]<typename T>() {
    if (!takes_vectors<T>(a.shape.cols, {a.x, a.w, a.y}, {a.x_stride, a.y_stride})) {
      rms_norm_forward_any_kernel<T><<<grid, kForwardThreads, 0, stream>>>(a);
      return cudaGetLastError();
    }
    return with_chunks<T>(a.shape.cols, [&]<int CHUNKS>() {
      rms_norm_forward_kernel<T, kVecElems<T>, CHUNKS><<<grid, kForwardThreads, 0, stream>>>(a);
      return cudaGetLastError();
    });
  });
}

std::int64_t rms_norm_backward_blocks(const RmsNormShape& shape, int num_sms) {
  return std::min<std::int64_t>(std::max<std::int64_t>(ceil_div(shape.items(), kBackwardWarps), 1),
                                std::int64_t{num_sms} * kBackwardBlocksPerSm);
}

cudaError_t launch_rms_norm_backward(DType dtype, const RmsNormBackward& a, cudaStream_t stream) {
  if (a.shape.items() == 0) return cudaSuccess;
  const std::int64_t blocks = rms_norm_backward_blocks(a.shape, a.num_sms);
  const auto grid = static_cast<unsigned>(blocks);
  const cudaError_t launched = with_float_type(dtype, [&]<typename T>() {
    if (!takes_vectors<T>(a.shape.cols, {a.x, a.w, a.grad_y, a.grad_x}, {a.x_stride, a.grad_y_stride, a.grad_x_stride})) {
      rms_norm_backward_any_kernel<T><<<grid, kBackwardThreads, 0, stream>>>(a);
      return cudaGetLastError();
    }
    return with_backward_shape<T>(a.shape.cols, [&]<int WARPS, int CHUNKS>() {
      const auto shared_bytes = static_cast<std::size_t>(kBackwardWarps / WARPS * a.shape.cols) * sizeof(float);
      rms_norm_backward_kernel<T, kVecElems<T>, WARPS, CHUNKS><<<grid, kBackwardThreads, shared_bytes, stream>>>(a);
      return cudaGetLastError();
    });
  });
  if (launched != cudaSuccess) return launched;
  reduce_partials_kernel<<<grid_for(a.shape.cols, kWarpSize), kReduceRows * kWarpSize, 0, stream>>>(
      a.partials, blocks, a.shape.cols, a.grad_w_scale, a.grad_w);
  return cudaGetLastError();
}

}  // namespace ida::cuda

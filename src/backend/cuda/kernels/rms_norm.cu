// Forward: one warp a vector; its elements stay in registers between the two passes over them; it reads x and writes y.
// Backward reads grad_y, x (and grad_x when adding) and writes grad_x. To keep memory busy it must have some 40 KiB a
// multiprocessor under way: two turns of three blocks are 41 KiB (576 bf16 columns) to 74 KiB (2048) each.
#include "backend/cuda/device/cp_async.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/producers.cuh"
#include "backend/cuda/device/shared.cuh"
#include "backend/cuda/device/vec.cuh"
#include "backend/cuda/kernels/rms_norm.h"

namespace ida::cuda {
namespace {

constexpr int kForwardThreads = 256;
constexpr int kBackwardThreads = 256;
constexpr int kBackwardWarps = kBackwardThreads / kWarpSize;
constexpr int kBackwardBlocksPerSm = 3;  // 73 KiB of shared memory each where a thread holds 3 vectors

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
  if (a.y == nullptr && a.amax == nullptr) return;
  float most = 0.0f;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    const std::int64_t begin = (static_cast<std::int64_t>(c) * kWarpSize + lane) * N;
    if (begin >= a.shape.cols) break;
    const Vec<T, N> weight = w.at(c);
    Vec<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out.at[i] = from_float<T>(rms_norm_value(to_float(kept[c].at[i]), rstd, to_float(weight.at[i])));
      if (a.amax != nullptr) most = max_magnitude(most, to_float(out.at[i]));
    }
    if (a.y != nullptr) store_vec<N>(y + begin, out);
  }
  if (a.amax != nullptr) raise_amax(a.amax, most);
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
  float most = 0.0f;
  for (std::int64_t i = lane; i < a.shape.cols; i += kWarpSize) {
    const T out = from_float<T>(rms_norm_value(to_float(x[i]), rstd, to_float(w[i])));
    most = max_magnitude(most, to_float(out));
    if (a.y != nullptr) y[i] = out;
  }
  if (a.amax != nullptr) raise_amax(a.amax, most);
}

// Item i's place in a tensor: its row and its first column.
struct Place {
  std::int64_t row, column;
  __device__ Place(const RmsNormShape& shape, std::int64_t item)
      : row(shape.groups == 1 ? item : item / shape.groups),
        column(shape.groups == 1 ? 0 : item % shape.groups * shape.cols) {}
};

// WARPS warps share a row, kBackwardWarps / WARPS rows a block and turn. Rows arrive in shared memory two turns ahead of
// their use; a thread copies and reads its own vectors, so that a row of one warp needs no barrier. The weight and grad_w
// of a thread's columns stay in registers over the turns; the block's rows are added in order at the end, the blocks by
// reduce_partials_kernel.
template <typename T, int N, int WARPS, int CHUNKS>
__global__ void __launch_bounds__(kBackwardThreads, kBackwardBlocksPerSm) rms_norm_backward_kernel(RmsNormBackward a) {
  constexpr int kRows = kBackwardWarps / WARPS;
  constexpr int kX = 0, kGradY = 1, kGradX = 2;
  __shared__ float warp_dots[2][kBackwardWarps];
  Vec<T, N>* ring = static_cast<Vec<T, N>*>(dynamic_shared());  // [turn % 2][x, grad_y, grad_x][chunk][thread]
  const auto slot = [&](int stage, int tensor, int chunk) {
    return ring + ((stage * 3 + tensor) * CHUNKS + chunk) * kBackwardThreads + threadIdx.x;
  };
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int part = warp % WARPS * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize;  // of WARPS * 32 in the row
  const auto column_of = [&](int chunk) { return (std::int64_t{chunk} * WARPS * kWarpSize + part) * N; };
  const std::int64_t cols = a.shape.cols;
  const std::int64_t items = a.shape.items();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRows;

  // Starts the copies of an item, zeros where there is none, and returns its rstd.
  const auto fetch = [&](std::int64_t item, int stage) {
    const bool present = item < items;
    const Place place(a.shape, present ? item : 0);
    const T* x = static_cast<const T*>(a.x) + place.row * a.x_stride + place.column;
    const T* grad_y = static_cast<const T*>(a.grad_y) + place.row * a.grad_y_stride + place.column;
    const T* grad_x = static_cast<const T*>(a.grad_x) + place.row * a.grad_x_stride + place.column;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const std::int64_t at = column_of(c);
      const bool valid = present && at < cols;
      const std::int64_t from = valid ? at : 0;
      cp_async_16(shared_address(slot(stage, kX, c)), x + from, valid);
      cp_async_16(shared_address(slot(stage, kGradY, c)), grad_y + from, valid);
      cp_async_16(shared_address(slot(stage, kGradX, c)), grad_x + from, valid && a.add_to_grad_x);
    }
    cp_async_commit();
    return present ? a.rstd[item] : 0.0f;
  };

  Vec<T, N> weight[CHUNKS];
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c)
    weight[c] = column_of(c) < cols ? load_vec<N>(static_cast<const T*>(a.w) + column_of(c)) : Vec<T, N>{};
  float grad_w[CHUNKS * N] = {};
  float most = 0.0f;
  int stage = 0;
  std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kRows + warp / WARPS;
  float rstd = fetch(item, 0);
  float next_rstd = fetch(item + stride, 1);
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows; first < items;
       first += stride, item += stride, stage ^= 1) {
    cp_async_wait_group<1>();
    float dot = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const Vec<T, N> x = *slot(stage, kX, c);
      const Vec<T, N> grad_y = *slot(stage, kGradY, c);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float g_xhat = to_float(grad_y.at[i]) * to_float(x.at[i]) * rstd;
        dot += to_float(weight[c].at[i]) * g_xhat;
        grad_w[c * N + i] += g_xhat;
      }
    }
    dot = warp_sum(dot);
    if constexpr (WARPS > 1) {  // two sets of sums: one barrier a turn is enough
      if (threadIdx.x % kWarpSize == 0) warp_dots[stage][warp] = dot;
      __syncthreads();
      dot = 0.0f;
#pragma unroll
      for (int k = 0; k < WARPS; ++k) dot += warp_dots[stage][warp / WARPS * WARPS + k];
    }
    const float mean = dot / static_cast<float>(cols);
    const Place place(a.shape, item);
    T* out_row = static_cast<T*>(a.grad_x) + place.row * a.grad_x_stride + place.column;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const Vec<T, N> x = *slot(stage, kX, c);
      const Vec<T, N> grad_y = *slot(stage, kGradY, c);
      const Vec<T, N> old = *slot(stage, kGradX, c);  // zeros when nothing is added
      Vec<T, N> out;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        out.at[i] = from_float<T>(rms_norm_grad(to_float(grad_y.at[i]), to_float(x.at[i]), to_float(weight[c].at[i]), rstd,
                                                mean, to_float(old.at[i])));
        if (a.amax != nullptr) most = max_magnitude(most, to_float(out.at[i]));
      }
      if (item < items && column_of(c) < cols) store_vec<N>(out_row + column_of(c), out);
    }
    rstd = next_rstd;
    next_rstd = fetch(item + 2 * stride, stage);
  }
  cp_async_wait_all();
  if (a.amax != nullptr) raise_amax(a.amax, most);
  __syncthreads();
  float* sums = reinterpret_cast<float*>(ring);  // [kRows, cols]
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (column_of(c) < cols) sums[warp / WARPS * cols + column_of(c) + i] = grad_w[c * N + i];
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < cols; i += kBackwardThreads) {
    float sum = 0.0f;
    for (int k = 0; k < kRows; ++k) sum += sums[k * cols + i];
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
  float most = 0.0f;
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
      const float old = a.add_to_grad_x ? to_float(grad_x[i]) : 0.0f;
      grad_x[i] = from_float<T>(rms_norm_grad(g, to_float(x[i]), to_float(w[i]), rstd, mean, old));
      most = max_magnitude(most, to_float(grad_x[i]));
    }
  }
  if (a.amax != nullptr) raise_amax(a.amax, most);
}

struct PartialSums {
  const float* partials;
  std::int64_t num_blocks, cols;
  const float* scale;  // null: 1
  float* grad_w;
};

// grad_w[c] += scale * sum of partials[., c]: a block sums 32 columns, each warp every 32nd row of partials, in a fixed
// order; a thread's few loads are under way together.
constexpr int kReduceRows = 32;
__global__ void __launch_bounds__(kReduceRows* kWarpSize) reduce_partials_kernel(PartialSums a) {
  __shared__ float shared[kReduceRows][kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int part = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarpSize + lane;
  float sum = 0.0f;
  if (column < a.cols) {
#pragma unroll 8
    for (std::int64_t b = part; b < a.num_blocks; b += kReduceRows) sum += a.partials[b * a.cols + column];
  }
  shared[part][lane] = sum;
  __syncthreads();
  if (part != 0 || column >= a.cols) return;
  float total = 0.0f;
  for (int i = 0; i < kReduceRows; ++i) total += shared[i][lane];
  a.grad_w[column] += value_or_one(a.scale) * total;
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
  if (chunks <= 8) return f.template operator()<4, 2>();
  return f.template operator()<8, 2>();
}

// Chunks a row may have: forward keeps one of a warp in registers, backward shares it between the warps of a block.
constexpr std::int64_t kForwardChunks = 8;
constexpr std::int64_t kBackwardChunks = 16;

template <typename T>
bool takes_vectors(std::int64_t cols, std::int64_t max_chunks, std::initializer_list<const void*> pointers,
                   std::initializer_list<std::int64_t> strides) {
  constexpr std::int64_t n = kVecElems<T>;
  if (cols % n != 0 || cols > max_chunks * kWarpSize * n) return false;
  return std::all_of(pointers.begin(), pointers.end(), [](const void* p) { return aligned_to(p, 16); }) &&
         std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s % n == 0; });
}

}  // namespace

cudaError_t launch_rms_norm_forward(DType dtype, const RmsNormForward& a, cudaStream_t stream) {
  if (a.shape.items() == 0) return cudaSuccess;
  const dim3 grid(grid_for(a.shape.items(), kForwardThreads / kWarpSize));
  return with_float_type(dtype, [&]<typename T>() {
    if (!takes_vectors<T>(a.shape.cols, kForwardChunks, {a.x, a.w, a.y}, {a.x_stride, a.y_stride}))
      return launch_kernel(rms_norm_forward_any_kernel<T>, grid, kForwardThreads, 0, stream, a);
    return with_chunks<T>(a.shape.cols, [&]<int CHUNKS>() {
      return launch_kernel(rms_norm_forward_kernel<T, kVecElems<T>, CHUNKS>, grid, kForwardThreads, 0, stream, a);
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
  const dim3 grid(static_cast<unsigned>(blocks));
  const cudaError_t launched = with_float_type(dtype, [&]<typename T>() {
    if (!takes_vectors<T>(a.shape.cols, kBackwardChunks, {a.x, a.w, a.grad_y, a.grad_x},
                          {a.x_stride, a.grad_y_stride, a.grad_x_stride}))
      return launch_kernel(rms_norm_backward_any_kernel<T>, grid, kBackwardThreads, 0, stream, a);
    return with_backward_shape<T>(a.shape.cols, [&]<int WARPS, int CHUNKS>() {
      constexpr int kRingBytes = 2 * 3 * CHUNKS * kBackwardThreads * 16;
      return launch_kernel(rms_norm_backward_kernel<T, kVecElems<T>, WARPS, CHUNKS>, grid, kBackwardThreads, kRingBytes,
                           stream, a);
    });
  });
  if (launched != cudaSuccess) return launched;
  const PartialSums sums{a.partials, blocks, a.shape.cols, a.grad_w_scale, a.grad_w};
  return launch_kernel(reduce_partials_kernel, dim3(grid_for(a.shape.cols, kWarpSize)), kReduceRows * kWarpSize, 0, stream,
                       sums);
}

}  // namespace ida::cuda

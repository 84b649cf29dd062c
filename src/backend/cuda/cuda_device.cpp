#include "backend/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/attention_cudnn.h"
#include "backend/cuda/cuda_graph.h"
#include "backend/cuda/cudnn_api.h"
#include "backend/cuda/gemm_plans.h"
#include "backend/cuda/nvml_api.h"
#include "base/units.h"

namespace ida::cuda {
namespace {

// Copies pass through pinned memory in pieces: the driver's own staging is slower and holds the caller.
constexpr std::size_t kStagingBytes = std::size_t{32} << 20;

}  // namespace

CudaQueue::CudaQueue(const runtime::DeviceInfo& device) : device_(device.device_index) {
  check(cudaSetDevice(device_), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  gemm_plans_ = std::make_unique<GemmPlans>(stream_, device.name);
}

CudnnAttention& CudaQueue::cudnn_attention() {
  if (!cudnn_attention_) cudnn_attention_ = std::make_unique<CudnnAttention>(*cudnn());
  return *cudnn_attention_;
}

CudaQueue::~CudaQueue() {
  cudnn_attention_.reset();
  gemm_plans_.reset();
  cudaStreamDestroy(stream_);
}

CudaDevice::CudaDevice(const runtime::DeviceInfo& info) : info_(info), queue_(std::make_unique<CudaQueue>(info)) {
  check(cudaMallocHost(&staging_, kStagingBytes), "pinned staging memory");
  // A driver whose context alone takes more than was expected.
  if (const auto opened = own_device_bytes(info_.device_index))
    info_.outside_arena_bytes = std::max(info_.outside_arena_bytes, *opened);
}

CudaDevice::~CudaDevice() {
  queue_.reset();
  cudaFreeHost(staging_);
}

void* CudaDevice::allocate(std::int64_t size_bytes) {
  if (size_bytes <= 0) return nullptr;
  void* memory = nullptr;
  if (cudaMalloc(&memory, static_cast<std::size_t>(size_bytes)) != cudaSuccess) {
    cudaGetLastError();
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    fail_runtime(
        "[cuda] cannot allocate {} bytes ({:.2f} GiB): {:.2f} GiB of {:.2f} GiB are free; reduce "
        "train.micro_batch_sequences or the model, or set train.recompute = \"block\"",
        size_bytes, gib(size_bytes), gib(static_cast<std::int64_t>(free_bytes)),
        gib(static_cast<std::int64_t>(total_bytes)));
  }
  fill_zero(memory, size_bytes);
  return memory;
}

void CudaDevice::release(void* memory, std::int64_t) {
  if (memory == nullptr) return;
  cudaStreamSynchronize(queue_->stream());
  cudaFree(memory);
}

void CudaDevice::copy_to_device(void* device, const void* host, std::int64_t size_bytes) {
  for (std::int64_t begin = 0; begin < size_bytes; begin += kStagingBytes) {
    const auto bytes = std::min(static_cast<std::size_t>(size_bytes - begin), kStagingBytes);
    synchronize();  // the staging buffer may still be read by the copy before
    std::memcpy(staging_, static_cast<const std::byte*>(host) + begin, bytes);
    check(
        cudaMemcpyAsync(static_cast<std::byte*>(device) + begin, staging_, bytes, cudaMemcpyHostToDevice, queue_->stream()),
        "copy to the device");
  }
}

void CudaDevice::copy_to_host(void* host, const void* device, std::int64_t size_bytes) {
  for (std::int64_t begin = 0; begin < size_bytes; begin += kStagingBytes) {
    const auto bytes = std::min(static_cast<std::size_t>(size_bytes - begin), kStagingBytes);
    synchronize();
    check(cudaMemcpyAsync(staging_, static_cast<const std::byte*>(device) + begin, bytes, cudaMemcpyDeviceToHost,
                          queue_->stream()),
          "copy to the host");
    synchronize();
    std::memcpy(static_cast<std::byte*>(host) + begin, staging_, bytes);
  }
}

void* CudaDevice::allocate_host(std::int64_t size_bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, static_cast<std::size_t>(size_bytes)), "pinned host memory");
  return memory;
}

void CudaDevice::release_host(void* memory) {
  cudaStreamSynchronize(queue_->stream());
  cudaFreeHost(memory);
}

void CudaDevice::enqueue_to_device(void* device, const void* host, std::int64_t size_bytes) {
  check(cudaMemcpyAsync(device, host, static_cast<std::size_t>(size_bytes), cudaMemcpyHostToDevice, queue_->stream()),
        "copy to the device");
}

void CudaDevice::enqueue_to_host(void* host, const void* device, std::int64_t size_bytes) {
  check(cudaMemcpyAsync(host, device, static_cast<std::size_t>(size_bytes), cudaMemcpyDeviceToHost, queue_->stream()),
        "copy to the host");
}

void CudaDevice::fill_zero(void* device, std::int64_t size_bytes) {
  if (size_bytes > 0)
    check(cudaMemsetAsync(device, 0, static_cast<std::size_t>(size_bytes), queue_->stream()), "clearing memory");
}

void CudaDevice::synchronize() { check(cudaStreamSynchronize(queue_->stream()), "device work"); }

std::unique_ptr<runtime::Recording> CudaDevice::record(const std::function<void()>& enqueue) {
  return std::make_unique<CudaGraph>(queue_->stream(), enqueue);
}

void CudaDevice::replay(const runtime::Recording& recording) {
  static_cast<const CudaGraph&>(recording).launch(queue_->stream());
}

std::string CudaDevice::library_choices() const { return queue_->gemm_plans().choices(); }

bool CudaDevice::adopt_library_choices(const std::string& choices, std::string& reason) {
  return queue_->gemm_plans().adopt(choices, reason);
}

bool CudaDevice::start_kernel_window(std::string& reason) {
  synchronize();
  try {
    kernel_window_.start();
  } catch (const Error& error) {
    reason = error.what();
    return false;
  }
  return true;
}

runtime::KernelTotals CudaDevice::stop_kernel_window() {
  synchronize();
  return kernel_window_.stop();
}

std::int64_t CudaDevice::used_bytes() const {
  if (const auto own = own_device_bytes(info_.device_index)) return *own;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return static_cast<std::int64_t>(total_bytes - free_bytes);
}

}  // namespace ida::cuda

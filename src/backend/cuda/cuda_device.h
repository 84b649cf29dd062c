// An NVIDIA GPU as a device.
#pragma once
#include <memory>

#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/kernel_window.h"
#include "runtime/device.h"

namespace ida::cuda {

class CudaDevice final : public runtime::Device {
 public:
  // `info` from detect_cuda().
  explicit CudaDevice(const runtime::DeviceInfo& info);
  ~CudaDevice() override;
  const runtime::DeviceInfo& info() const override { return info_; }
  void* allocate(std::int64_t size_bytes) override;
  void release(void* memory, std::int64_t size_bytes) override;
  void copy_to_device(void* device, const void* host, std::int64_t size_bytes) override;
  void copy_to_host(void* host, const void* device, std::int64_t size_bytes) override;
  void* allocate_host(std::int64_t size_bytes) override;
  void release_host(void* memory) override;
  void enqueue_to_device(void* device, const void* host, std::int64_t size_bytes) override;
  void enqueue_to_host(void* host, const void* device, std::int64_t size_bytes) override;
  void fill_zero(void* device, std::int64_t size_bytes) override;
  void synchronize() override;
  bool can_record() const override { return true; }
  std::unique_ptr<runtime::Recording> record(const std::function<void()>& enqueue) override;
  void replay(const runtime::Recording& recording) override;
  std::string library_choices() const override;
  bool adopt_library_choices(const std::string& choices, std::string& reason) override;
  runtime::Queue* queue() override { return queue_.get(); }
  bool start_kernel_window(std::string& reason) override;
  runtime::KernelTotals stop_kernel_window() override;
  // By NVML; where it cannot tell, what all processes hold on the card.
  std::int64_t used_bytes() const override;

 private:
  runtime::DeviceInfo info_;
  std::unique_ptr<CudaQueue> queue_;
  KernelWindow kernel_window_;
  void* staging_ = nullptr;  // pinned
};

}  // namespace ida::cuda

// The machine's processors and main memory as a device: work is done by the time a call returns.
#pragma once
#include <cstdint>
#include <optional>

#include "runtime/device.h"

namespace ida::cpu {

struct CpuDeviceOptions {
  std::optional<runtime::CpuIsa> isa;  // instead of what the processor has; must not exceed it
  bool open_onednn = true;             // look for oneDNN and fill onednn_version
};

// Name, memory the process may use (physical or cgroup limit, the smaller), cores by affinity, ISA, oneDNN.
runtime::DeviceInfo detect_cpu(const CpuDeviceOptions& options = {});

class CpuDevice : public runtime::Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options = {});
  const runtime::DeviceInfo& info() const override { return info_; }
  // Page-aligned zero pages, resident once touched. Throws Error(kRuntime) with the size asked for and what is free.
  void* allocate(std::int64_t size_bytes) override;
  void release(void* memory, std::int64_t size_bytes) override;
  void copy_to_device(void* device, const void* host, std::int64_t size_bytes) override;
  void copy_to_host(void* host, const void* device, std::int64_t size_bytes) override;
  void* allocate_host(std::int64_t size_bytes) override;
  void release_host(void* memory) override;
  void enqueue_to_device(void* device, const void* host, std::int64_t size_bytes) override {
    copy_to_device(device, host, size_bytes);
  }
  void enqueue_to_host(void* host, const void* device, std::int64_t size_bytes) override {
    copy_to_host(host, device, size_bytes);
  }
  void fill_zero(void* device, std::int64_t size_bytes) override;
  void copy_on_device(void* to, const void* from, std::int64_t size_bytes) override;
  double time_ms(const std::function<void()>& enqueue) override;
  void synchronize() override {}
  const void* host_address(const void* device) const override { return device; }

 private:
  runtime::DeviceInfo info_;
};

}  // namespace ida::cpu

// The device a run computes on: memory, copies and order of work. Backends implement it; only apps choose one.
#pragma once
#include <cstdint>

#include "runtime/device_info.h"

namespace ida::runtime {

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Device memory, zeroed, 64-byte aligned. Throws Error(kRuntime) naming size and what is free.
  virtual void* allocate(std::int64_t size_bytes) = 0;
  virtual void release(void* memory, std::int64_t size_bytes) = 0;
  // Copies are ordered with the work enqueued before and after them; copy_to_host returns when the data is there.
  virtual void copy_to_device(void* device, const void* host, std::int64_t size_bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::int64_t size_bytes) = 0;
  virtual void fill_zero(void* device, std::int64_t size_bytes) = 0;
  virtual void synchronize() = 0;
  // The same memory as the host sees it, or null where it cannot.
  virtual const void* host_address(const void* /*device*/) const { return nullptr; }
};

}  // namespace ida::runtime

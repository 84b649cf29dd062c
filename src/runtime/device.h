// The device a run computes on: memory, copies and order of work. Backends implement it; only apps choose one.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/device_info.h"

namespace ida::runtime {

// Where a backend enqueues work: a stream and the libraries' handles on it. What it is, only the backend knows.
class Queue {
 public:
  virtual ~Queue() = default;
};

// One kernel's share of a window.
struct KernelTotal {
  std::int64_t launches = 0;
  double milliseconds = 0.0;
};
using KernelTotals = std::map<std::string, KernelTotal>;

using KernelCounts = std::map<std::string, std::int64_t>;

// Work that was enqueued once and kept, to be enqueued again as a whole: the same kernels on the same addresses. What
// changes from one time to the next stands in device memory.
class Recording {
 public:
  virtual ~Recording() = default;
  // Launches of one replay.
  virtual const KernelCounts& kernels() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Device memory, zeroed, 256-byte aligned. Throws Error(kRuntime) naming size and what is free.
  virtual void* allocate(std::int64_t size_bytes) = 0;
  virtual void release(void* memory, std::int64_t size_bytes) = 0;
  // Copies are ordered with the work enqueued before and after them; copy_to_host returns when the data is there.
  virtual void copy_to_device(void* device, const void* host, std::int64_t size_bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::int64_t size_bytes) = 0;
  // Host memory for copies that go on beside the caller; pinned where the device asks for it.
  virtual void* allocate_host(std::int64_t size_bytes) = 0;
  virtual void release_host(void* memory) = 0;
  // Enqueues a copy from or to memory of allocate_host, which must not be touched until synchronize().
  virtual void enqueue_to_device(void* device, const void* host, std::int64_t size_bytes) = 0;
  virtual void enqueue_to_host(void* host, const void* device, std::int64_t size_bytes) = 0;
  virtual void fill_zero(void* device, std::int64_t size_bytes) = 0;
  virtual void synchronize() = 0;
  // Everything the process holds on the device by the device's own count; 0 where it cannot tell.
  virtual std::int64_t used_bytes() const { return 0; }
  // Kernels that ran between the two calls, by the driver's own records, the device idle at both; false where there are
  // no such records, with `reason` saying why.
  virtual bool start_kernel_window(std::string& reason) {
    reason = "the processor runs no kernels";
    return false;
  }
  virtual KernelTotals stop_kernel_window() { return {}; }
  // Whether record() and replay() can be called.
  virtual bool can_record() const { return false; }
  // Calls `enqueue` once; what it enqueues does not run, but is kept.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& /*enqueue*/) { return nullptr; }
  virtual void replay(const Recording& /*recording*/) {}
  // What the device's libraries chose by timing (algorithms of matrix products), as JSON to be kept with a run; empty where
  // nothing was chosen.
  virtual std::string library_choices() const { return {}; }
  // Takes the choices of an earlier run, so that a resumed one computes the same bits; false, with `reason`, where they do
  // not hold for this device or library.
  virtual bool adopt_library_choices(const std::string& /*choices*/, std::string& reason) {
    reason = "this device makes no such choices";
    return false;
  }
  // The queue that ops are enqueued on; null where work is done by the time a call returns.
  virtual Queue* queue() { return nullptr; }
  // The same memory as the host sees it, or null where it cannot.
  virtual const void* host_address(const void* /*device*/) const { return nullptr; }
};

}  // namespace ida::runtime

// A mark in a queue's order of work, on the device it was made on.
#pragma once
#include <string_view>

#include "backend/cuda/cuda_stream.h"

namespace ida::cuda {

class CudaEvent {
 public:
  explicit CudaEvent(int device);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  int device() const { return device_; }
  // Marks the work enqueued so far. A queue of another device is refused: Error(kRuntime) naming both devices.
  void record(const CudaQueue& queue);
  // What is enqueued on `queue` from now on, which may be another device's, starts after the marked work.
  void hold(const CudaQueue& queue) const;
  // The host waits for the marked work.
  void synchronize() const;
  // Milliseconds of the device's clock from `begin` to this event, both recorded on one device and reached.
  double ms_since(const CudaEvent& begin) const;

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

// Throws unless both are the same.
void expect_same_device(std::string_view what, int event_device, int other_device);

}  // namespace ida::cuda

#include "backend/cuda/cuda_event.h"

namespace ida::cuda {

void expect_same_device(std::string_view what, int event_device, int other_device) {
  if (event_device != other_device)
    fail_runtime("[cuda] {}: the event is of device {}, the other side of device {}; an event belongs to one device", what,
                 event_device, other_device);
}

CudaEvent::CudaEvent(int device) : device_(device) {
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  check(cudaSetDevice(device), "cudaSetDevice");
  const cudaError_t created = cudaEventCreate(&event_);
  check(cudaSetDevice(current), "cudaSetDevice");
  check(created, "cudaEventCreate");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::record(const CudaQueue& queue) {
  expect_same_device("recording an event on a queue", device_, queue.device());
  check(cudaEventRecord(event_, queue.stream()), "cudaEventRecord");
}

void CudaEvent::hold(const CudaQueue& queue) const {
  check(cudaStreamWaitEvent(queue.stream(), event_, 0), "cudaStreamWaitEvent");
}

void CudaEvent::synchronize() const { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

double CudaEvent::ms_since(const CudaEvent& begin) const {
  expect_same_device("time between events", begin.device_, device_);
  float elapsed = 0.0f;
  check(cudaEventElapsedTime(&elapsed, begin.event_, event_), "cudaEventElapsedTime");
  return static_cast<double>(elapsed);
}

}  // namespace ida::cuda

// What the adapters share.
#pragma once
#include "backend/cuda/cuda_stream.h"
#include "ops/impl_list.h"

namespace ida::cuda {

inline ops::Refusal refuse_other_devices(const runtime::DeviceInfo& device) {
  if (device.backend != runtime::BackendKind::kCuda) return {ops::RefusalKind::kHardware, "not a CUDA device"};
  return ops::kAccepted;
}

template <typename Desc>
ops::Refusal any_shape(const Desc&, const runtime::DeviceInfo& device) {
  return refuse_other_devices(device);
}

}  // namespace ida::cuda

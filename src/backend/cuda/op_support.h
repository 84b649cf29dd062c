// What the adapters share.
#pragma once
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/kernels/quantize.h"
#include "backend/cuda/kernels/tensor_ranges.h"
#include "ops/impl_list.h"
#include "ops/tensor_ranges.h"

namespace ida::cuda {

inline ops::Refusal refuse_other_devices(const runtime::DeviceInfo& device) {
  if (device.backend != runtime::BackendKind::kCuda) return {ops::RefusalKind::kHardware, "not a CUDA device"};
  return ops::kAccepted;
}

template <typename Desc>
ops::Refusal any_shape(const Desc&, const runtime::DeviceInfo& device) {
  return refuse_other_devices(device);
}

static_assert(sizeof(TensorRange) == sizeof(ops::TensorRange) && kRangeBlock == ops::kRangeBlock);
// Before a kernel that raises it.
inline void zero_amax(std::uint32_t* amax, const ops::Launch& launch) {
  if (amax != nullptr) check(launch_zero_words(amax, 1, stream_of(launch)), "amax");
}

inline const TensorRange* ranges_of(const TensorView& view) { return static_cast<const TensorRange*>(view.data); }

}  // namespace ida::cuda

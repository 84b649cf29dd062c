// The device that kernels run on in these tests: one multiprocessor, so that blocks take several turns.
#pragma once
#include "runtime/device_info.h"

namespace ida::cuda {

inline runtime::DeviceInfo emulated_device() {
  runtime::DeviceInfo device;
  device.backend = runtime::BackendKind::kCuda;
  device.sm = 90;
  device.num_cores = 1;
  device.shared_bytes_per_block = 100 * 1024;
  return device;
}

}  // namespace ida::cuda

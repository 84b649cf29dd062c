// Emulated: shared memory by address.
#pragma once
#include <cuda_runtime_api.h>

namespace ida::cuda {

inline void* dynamic_shared() { return emulation::shared_memory(); }
inline std::uint32_t shared_address(const void* pointer) {
  return emulation::shared_base() + static_cast<std::uint32_t>(static_cast<const unsigned char*>(pointer) -
                                                               static_cast<unsigned char*>(emulation::shared_memory()));
}
inline void store_shared(std::uint32_t address, std::uint32_t value) {
  std::memcpy(emulation::shared_bytes_at(address, 4, 4), &value, 4);
}
template <typename T>
T emulated_load(std::uint32_t address) {
  T value;
  std::memcpy(&value, emulation::shared_bytes_at(address, 16, 16), 16);
  return value;
}
inline uint4 load_shared_uint4(std::uint32_t address) { return emulated_load<uint4>(address); }
inline float4 load_shared_float4(std::uint32_t address) { return emulated_load<float4>(address); }

}  // namespace ida::cuda

// Emulated: copies that arrive when they are waited for.
#pragma once
#include <cuda_runtime_api.h>

namespace ida::cuda {

inline void cp_async_16(std::uint32_t shared, const void* global, bool valid) {
  emulation::copy_async(shared, global, 16, valid);
}
template <int kBytes>
void cp_async_small(std::uint32_t shared, const void* global, bool valid) {
  emulation::copy_async(shared, global, kBytes, valid);
}
inline void cp_async_commit() { emulation::close_copy_group(); }
template <int kPending>
void cp_async_wait_group() {
  emulation::wait_for_copy_groups(kPending);
}
inline void cp_async_wait_all() { emulation::wait_for_copies(); }

}  // namespace ida::cuda

// Device memory of a test: owned, poisoned with NaN, guarded behind its end.
#pragma once
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace ida::cuda {

inline bool device_present() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

class DeviceBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 256;

  // Every byte 0xFF: NaN in f32 and bf16.
  explicit DeviceBuffer(std::size_t size_bytes) : size_bytes_(size_bytes) {
    const std::vector<std::byte> poison(size_bytes + kGuardBytes, std::byte{0xFF});
    EXPECT_EQ(cudaMalloc(&data_, poison.size()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, poison.data(), poison.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  explicit DeviceBuffer(const std::vector<std::byte>& bytes) : DeviceBuffer(bytes.size()) {
    EXPECT_EQ(cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t size_bytes() const { return size_bytes_; }

  // The contents; a write behind the end fails the test.
  std::vector<std::byte> download() const {
    std::vector<std::byte> bytes(size_bytes_ + kGuardBytes);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(bytes.data(), data_, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    for (std::size_t i = size_bytes_; i < bytes.size(); ++i) {
      if (bytes[i] != std::byte{0xFF}) {
        ADD_FAILURE() << "written " << i - size_bytes_ << " bytes past the end";
        break;
      }
    }
    bytes.resize(size_bytes_);
    return bytes;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace ida::cuda

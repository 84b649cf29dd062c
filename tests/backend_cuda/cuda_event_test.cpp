// Events and the devices they belong to; the order of two queues on a GPU.
#include "backend/cuda/cuda_event.h"

#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"

namespace ida::cuda {
namespace {

TEST(CudaEventDevice, AnotherDevicesQueueIsRefusedByName) {
  EXPECT_NO_THROW(expect_same_device("recording an event on a queue", 1, 1));
  try {
    expect_same_device("recording an event on a queue", 0, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_STREQ(error.what(),
                 "[cuda] recording an event on a queue: the event is of device 0, the other side of device 1; an event "
                 "belongs to one device");
  }
}

class CudaEventTest : public testing::Test {
 protected:
  void SetUp() override {
    const CudaSearch search = detect_cuda();
    if (!search.device) GTEST_SKIP() << "no CUDA device: " << search.reason;
    device_ = *search.device;
  }
  runtime::DeviceInfo device_;
};

TEST_F(CudaEventTest, HoldsAnotherQueueAndTimesTheWork) {
  CudaQueue first(device_.device_index);
  CudaQueue second(device_.device_index);
  CudaEvent begin(device_.device_index);
  CudaEvent end(device_.device_index);
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  void* memory = nullptr;
  check(cudaMalloc(&memory, kBytes), "cudaMalloc");
  begin.record(first);
  for (int value = 0; value < 20; ++value) check(cudaMemsetAsync(memory, value, kBytes, first.stream()), "cudaMemset");
  check(cudaMemsetAsync(memory, 0x5A, kBytes, first.stream()), "cudaMemset");
  end.record(first);
  end.hold(second);  // without it the copy would find an earlier value, most likely
  unsigned char last = 0;
  check(
      cudaMemcpyAsync(&last, static_cast<unsigned char*>(memory) + kBytes - 1, 1, cudaMemcpyDeviceToHost, second.stream()),
      "cudaMemcpy");
  check(cudaStreamSynchronize(second.stream()), "cudaStreamSynchronize");
  EXPECT_EQ(last, 0x5A);
  end.synchronize();
  EXPECT_GT(end.ms_since(begin), 0.5);  // 10 GiB at 20 TB/s, which no memory reaches
  cudaFree(memory);
}

}  // namespace
}  // namespace ida::cuda

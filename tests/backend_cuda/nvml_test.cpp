// Which of the driver's figures is this process's.
#include <gtest/gtest.h>

#include <array>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/nvml_api.h"

namespace ida::cuda {
namespace {

TEST(Nvml, OnlyTheFigureOfTheProcessCounts) {
  const std::array<NvmlProcess, 3> listed = {
      {{.pid = 7, .used_bytes = 100}, {.pid = 9, .used_bytes = 600}, {.pid = 11, .used_bytes = ~0ULL}}};
  EXPECT_EQ(bytes_of_process(listed, 9), 600);
  EXPECT_EQ(bytes_of_process(listed, 8), std::nullopt);
  EXPECT_EQ(bytes_of_process(listed, 11), std::nullopt);
}

TEST(Nvml, TheDevicesCountGrowsByWhatIsAllocated) {
  const CudaSearch search = detect_cuda();
  if (!search.device) GTEST_SKIP() << "no CUDA device: " << search.reason;
  const std::unique_ptr<runtime::Device> device = open_cuda(*search.device);
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  const std::int64_t before = device->used_bytes();
  EXPECT_GT(before, 0);
  void* memory = device->allocate(kBytes);
  EXPECT_GE(device->used_bytes(), before + kBytes);
  device->release(memory, kBytes);
}

}  // namespace
}  // namespace ida::cuda

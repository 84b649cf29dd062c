#include "backend/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/onednn.h"
#include "base/error.h"

namespace ida::cpu {
namespace {

TEST(CpuDevice, InfoIsFilled) {
  const CpuDevice device;
  EXPECT_EQ(device.info().backend, runtime::BackendKind::kCpu);
  EXPECT_FALSE(device.info().name.empty());
  EXPECT_GE(device.info().num_cores, 1);
  EXPECT_GT(device.info().memory_bytes, std::int64_t{64} << 20);
  EXPECT_EQ(device.info().onednn_version.empty(), onednn() == nullptr) << onednn_search_report();
}

TEST(CpuDevice, IsaCanBeGiven) {
  const CpuDevice device({.isa = runtime::CpuIsa{}, .open_onednn = false});
  EXPECT_EQ(isa_level(device.info().cpu), IsaLevel::kBaseline);
  EXPECT_TRUE(device.info().onednn_version.empty());
}

TEST(CpuDevice, MemoryIsZeroedAlignedAndCopied) {
  CpuDevice device;
  constexpr std::int64_t kSize = 100'001;
  void* memory = device.allocate(kSize);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
  std::vector<unsigned char> host(kSize, 1);
  device.copy_to_host(host.data(), memory, kSize);
  EXPECT_EQ(host, std::vector<unsigned char>(kSize, 0));
  const std::vector<unsigned char> sent(kSize, 7);
  device.copy_to_device(memory, sent.data(), kSize);
  device.fill_zero(memory, 1);
  device.synchronize();
  device.copy_to_host(host.data(), memory, kSize);
  EXPECT_EQ(host[0], 0);
  EXPECT_EQ(host[kSize - 1], 7);
  device.release(memory, kSize);
}

TEST(CpuDevice, TooLargeAllocationNamesTheSizes) {
  CpuDevice device;
  const std::int64_t size_bytes = device.info().memory_bytes + (std::int64_t{1} << 30);
  try {
    device.allocate(size_bytes);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_NE(std::string(error.what()).find(std::to_string(size_bytes)), std::string::npos) << error.what();
  }
}

TEST(CpuDevice, EmptyAllocationIsNull) {
  CpuDevice device;
  EXPECT_EQ(device.allocate(0), nullptr);
  device.release(nullptr, 0);
}

#if defined(__x86_64__)
// The compiler's own detection, for what it knows.
TEST(Isa, AgreesWithTheCompiler) {
  const runtime::CpuIsa isa = detect_isa();
  EXPECT_EQ(isa.avx2, __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(isa.avx512, isa.avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                            __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0);
}
#endif

TEST(Isa, LimitKeepsWhatLiesBelow) {
  const runtime::CpuIsa all = {.avx2 = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true};
  EXPECT_EQ(isa_level(limit_isa(all, IsaLevel::kAvx512)), IsaLevel::kAvx512);
  EXPECT_TRUE(limit_isa(all, IsaLevel::kAvx512).amx_bf16);
  EXPECT_EQ(isa_level(limit_isa(all, IsaLevel::kAvx2)), IsaLevel::kAvx2);
  EXPECT_FALSE(limit_isa(all, IsaLevel::kAvx2).amx_bf16);
  EXPECT_EQ(isa_level(limit_isa(all, IsaLevel::kBaseline)), IsaLevel::kBaseline);
}

}  // namespace
}  // namespace ida::cpu

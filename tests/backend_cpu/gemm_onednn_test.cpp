// What is particular to the oneDNN engines: opening the library, refusals, strides.
#include "backend/cpu/gemm_onednn.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cpu/gemm_blocked.h"
#include "backend/cpu/onednn.h"
#include "backend_cpu/gemm_cases.h"
#include "ops/impl_list.h"

namespace ida::cpu::test {
namespace {

TEST(OneDnn, MissingLibraryGivesAReason) {
  std::string reason;
  EXPECT_EQ(open_onednn("libdnnl_that_is_not_there.so.9", reason), nullptr);
  EXPECT_NE(reason.find("libdnnl_that_is_not_there"), std::string::npos) << reason;
}

TEST(OneDnn, OtherLibrariesAreRefused) {
  std::string reason;
  EXPECT_EQ(open_onednn("libm.so.6", reason), nullptr);
  EXPECT_NE(reason.find("dnnl_version"), std::string::npos) << reason;
}

TEST(OneDnn, GivenLibraryIsVersion3) {
  const std::string path = IDA_ONEDNN3_LIBRARY;
  if (path.empty()) GTEST_SKIP() << "configure with -DIDA_ONEDNN3_LIBRARY=/path/to/libdnnl.so.3 to run this";
  std::string reason;
  const auto library = open_onednn(path, reason);
  ASSERT_NE(library, nullptr) << reason;
  EXPECT_TRUE(library->version().starts_with("3.")) << library->version();
}

TEST(OneDnn, RefusalsNameTheReason) {
  runtime::DeviceInfo device;
  const ops::GemmDesc f32 = {.m = 64, .n = 64, .k = 64};
  EXPECT_EQ(gemm_onednn_f32().supports(f32, device).kind, ops::RefusalKind::kLibrary);
  if (onednn() == nullptr) GTEST_SKIP() << onednn_search_report();
  device.onednn_version = onednn()->version();
  EXPECT_FALSE(gemm_onednn_f32().supports(f32, device));
  EXPECT_EQ(gemm_onednn_f32().supports({.m = 0, .n = 64, .k = 64}, device).kind, ops::RefusalKind::kShape);
  ops::GemmDesc bf16 = f32;
  bf16.a_dtype = bf16.b_dtype = DType::kBF16;
  EXPECT_EQ(gemm_onednn_f32().supports(bf16, device).kind, ops::RefusalKind::kDType);
  EXPECT_EQ(gemm_onednn_bf16().supports(f32, device).kind, ops::RefusalKind::kDType);
  EXPECT_EQ(gemm_onednn_bf16().supports(bf16, device).kind, ops::RefusalKind::kHardware);
}

// oneDNN chooses kernels by the stride of A, so a full tile of the right stride is read in place, any other is copied:
// the bits must be the same.
TEST(OneDnn, StrideOfADoesNotChangeBits) {
  for (const bool bf16 : {false, true}) {
    for (const Engine& engine : engines(bf16)) {
      if (!engine.name.starts_with("onednn")) continue;
      std::vector<ops::GemmDesc> descs = all_forms(131, 300, 600, bf16);
      for (const ops::GemmDesc& desc : all_forms(131, 300, 2048, bf16)) descs.push_back(desc);
      for (const ops::GemmDesc& desc : descs) {
        if (desc.has_bias || desc.accumulate || desc.c_dtype != DType::kF32) continue;
        Problem contiguous(desc, Values::kUniform, 1.0f, 0);
        run(engine, contiguous);
        for (const std::int64_t gap : {1, 16, 32, 424, 1448}) {
          Problem spaced(desc, Values::kUniform, 1.0f, gap);
          run(engine, spaced);
          EXPECT_EQ(count_different_bits(contiguous.c, spaced.c), 0)
              << engine.name << " " << desc.to_string() << " gap " << gap;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ida::cpu::test

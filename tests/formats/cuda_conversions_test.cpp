// The host conversions of the CUDA toolkit, where this build has one.
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "formats/minifloat.h"

namespace ida::formats {
namespace {

TEST(CudaHostConversions, SameCodes) {
  std::mt19937 generator(3);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(generator());
    const float x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(encode_nearest<E4m3>(x), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) << x;
    ASSERT_EQ(encode_nearest<E5m2>(x), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2)) << x;
    ASSERT_EQ(encode_nearest<E2m1>(x), __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest)) << x;
  }
  for (int i = 0; i < 100000; ++i) {  // the range of e2m1
    const float x = std::ldexp(static_cast<float>(generator() % 4096), -9);
    ASSERT_EQ(encode_nearest<E2m1>(x), __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest)) << x;
    ASSERT_EQ(encode_nearest<E4m3>(x), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) << x;
  }
}

TEST(CudaHostConversions, SameValues) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const auto same = [&](float ours, __half_raw theirs) {
      const float value = __half2float(__half(theirs));
      return std::isnan(ours) ? std::isnan(value) : ours == value;
    };
    EXPECT_TRUE(same(decode<E4m3>(byte), __nv_cvt_fp8_to_halfraw(byte, __NV_E4M3))) << code;
    EXPECT_TRUE(same(decode<E5m2>(byte), __nv_cvt_fp8_to_halfraw(byte, __NV_E5M2))) << code;
    EXPECT_TRUE(code >= 16 || same(decode<E2m1>(byte), __nv_cvt_fp4_to_halfraw(byte, __NV_E2M1))) << code;
  }
}

// The scale of a block, rounded up as cvt.rp.satfinite.ue8m0x2 does.
TEST(CudaHostConversions, SameScaleBytes) {
  for (int exponent = -126; exponent <= 127; ++exponent) {
    const float x = std::ldexp(1.0f, exponent);
    EXPECT_EQ(__nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf), exponent + 127);
    EXPECT_EQ(decode_ue8m0(static_cast<std::uint8_t>(exponent + 127)), x);
  }
}

}  // namespace
}  // namespace ida::formats

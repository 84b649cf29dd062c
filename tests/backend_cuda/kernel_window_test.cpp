// Names of kernels as a record shows them, and the window's errors where there is no GPU.
#include "backend/cuda/kernel_window.h"

#include <gtest/gtest.h>

#include "backend/cuda/cupti_api.h"
#include "base/error.h"

namespace ida::cuda {
namespace {

TEST(KernelName, IsTheFunctionWithoutItsSignature) {
  // ida::cuda::(anonymous namespace)::transpose_f32(float const*, float*, long, long)
  EXPECT_EQ(kernel_name("_ZN3ida4cuda12_GLOBAL__N_113transpose_f32EPKfPfll"), "ida::cuda::transpose_f32");
  // void ida::cuda::copy<float, 4>(float const*)
  EXPECT_EQ(kernel_name("_ZN3ida4cuda4copyIfLi4EEEvPKT_"), "ida::cuda::copy<float, 4>");
  EXPECT_EQ(kernel_name("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNN"),
            "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNN");
  EXPECT_EQ(kernel_name("not mangled(int)"), "not mangled");
}

TEST(KernelName, LongTemplateArgumentsAreLeftOut) {
  const std::string argument(120, 'a');
  EXPECT_EQ(kernel_name(("_Z6kernelI120" + argument + "EvT_").c_str()), "kernel<...>");
  const std::string shorter(80, 'a');
  EXPECT_EQ(kernel_name(("_Z6kernelI80" + shorter + "EvT_").c_str()), "kernel<" + shorter + ">");
}

TEST(KernelWindow, SaysWhyKernelsCannotBeCounted) {
  KernelWindow window;
  EXPECT_THROW(window.stop(), Error);
  try {
    window.start();
    window.stop();  // a machine with a GPU
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRuntime);
    EXPECT_EQ(std::string(error.what()).rfind("[cupti] ", 0), 0u) << error.what();
  }
}

}  // namespace
}  // namespace ida::cuda

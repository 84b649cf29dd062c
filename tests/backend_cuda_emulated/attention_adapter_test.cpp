// What the implementation lists accept, and that an op's arguments reach the kernels. On the emulated device, whose memory
// is the host's.
#include "backend/cuda/attention.h"
#include "backend_cpu/attention_test_support.h"

namespace ida::cuda {
namespace {

runtime::DeviceInfo device_of(int sm) {
  runtime::DeviceInfo device;
  device.backend = runtime::BackendKind::kCuda;
  device.sm = sm;
  device.num_cores = 4;
  return device;
}

// Places in the lists; before them stands cuDNN, which is not there.
constexpr std::size_t kMma = 1;
constexpr std::size_t kF32 = 2;

ops::AttentionDesc desc_of(DType dtype, std::int64_t head_dim) {
  return {.q_rows = 100,
          .kv_rows = 100,
          .num_heads = 2,
          .num_kv_heads = 1,
          .head_dim = head_dim,
          .max_segments = 3,
          .scale = 0.1f,
          .dtype = dtype};
}

std::string_view chosen(const ops::AttentionDesc& desc, const runtime::DeviceInfo& device) {
  const auto forward = ops::choose(attention_forward_impls(), desc, device, "attention_forward").name;
  EXPECT_EQ(ops::choose(attention_backward_impls(), desc, device, "attention_backward").name, forward);
  return forward;
}

TEST(CudaAttentionAdapter, TheListsChooseByTypeShapeAndDevice) {
  for (const int sm : {80, 90, 100, 120}) {
    EXPECT_EQ(chosen(desc_of(DType::kBF16, 64), device_of(sm)), "own.attention_mma");
    EXPECT_EQ(chosen(desc_of(DType::kBF16, 2), device_of(sm)), "own.attention_mma");
    EXPECT_EQ(chosen(desc_of(DType::kBF16, 256), device_of(sm)), "own.attention_mma");
  }
  EXPECT_EQ(chosen(desc_of(DType::kF32, 64), device_of(90)), "own.attention_f32");
  EXPECT_EQ(chosen(desc_of(DType::kBF16, 63), device_of(90)), "own.attention_f32");
  EXPECT_EQ(chosen(desc_of(DType::kBF16, 64), device_of(75)), "own.attention_f32");
  ops::AttentionDesc negative = desc_of(DType::kBF16, 64);
  negative.scale = -1.0f;
  EXPECT_EQ(chosen(negative, device_of(90)), "own.attention_f32");
}

TEST(CudaAttentionAdapter, EveryRefusalHasItsKind) {
  const auto refused = [](const ops::AttentionDesc& desc, const runtime::DeviceInfo& device) {
    const auto list = attention_forward_impls();
    return std::pair{list[kMma].supports(desc, device).kind, list[kF32].supports(desc, device).kind};
  };
  using ops::RefusalKind;
  EXPECT_EQ(refused(desc_of(DType::kBF16, 258), device_of(90)), (std::pair{RefusalKind::kShape, RefusalKind::kShape}));
  EXPECT_EQ(refused(desc_of(DType::kF64, 64), device_of(90)), (std::pair{RefusalKind::kDType, RefusalKind::kDType}));
  EXPECT_EQ(refused(desc_of(DType::kF32, 64), device_of(90)), (std::pair{RefusalKind::kDType, RefusalKind::kNone}));
  EXPECT_EQ(refused(desc_of(DType::kBF16, 64), {}), (std::pair{RefusalKind::kHardware, RefusalKind::kHardware}));
  EXPECT_EQ(refused(desc_of(DType::kBF16, 64), device_of(75)), (std::pair{RefusalKind::kHardware, RefusalKind::kNone}));
  ops::AttentionDesc large = desc_of(DType::kBF16, 64);
  large.kv_rows = std::int64_t{1} << 30;
  EXPECT_EQ(refused(large, device_of(90)), (std::pair{RefusalKind::kShape, RefusalKind::kShape}));
}

TEST(CudaAttentionAdapter, RunsOnTheWorkspaceItAskedFor) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (std::size_t impl = dtype == DType::kBF16 ? kMma : kF32; impl <= kF32; ++impl) {
      // Rows at every distance that the CPU's tests use break the alignment of pairs: make them even.
      cpu::AttentionCase t({4, 2, 20, 0, dtype}, {70, 0, 5}, 1);
      const auto even = [&](const cpu::HostTensor& x) {
        cpu::HostTensor y(dtype, x.rows(), x.cols(), 2);
        y.assign(x.values());
        return y;
      };
      for (cpu::HostTensor cpu::AttentionCase::*member :
           {&cpu::AttentionCase::q, &cpu::AttentionCase::k, &cpu::AttentionCase::v, &cpu::AttentionCase::grad_o,
            &cpu::AttentionCase::o, &cpu::AttentionCase::grad_q, &cpu::AttentionCase::grad_k,
            &cpu::AttentionCase::grad_v}) {
        t.*member = even(t.*member);
      }
      cpu::AttentionCase exact = t;
      cpu::run_impl(cpu::attention_forward_impls().back(), exact.desc, exact.forward(), cpu::devices_of_every_isa()[0]);
      cpu::run_impl(cpu::attention_backward_impls().back(), exact.desc, exact.backward(), cpu::devices_of_every_isa()[0]);
      cpu::run_impl(attention_forward_impls()[impl], t.desc, t.forward(), device_of(90));
      // Two roundings of P or dS and one of the result: the numbers themselves are the kernels' tests.
      const double tolerance = dtype == DType::kBF16 ? 0.02 : 1e-5;
      EXPECT_LT(cpu::relative_error(t.o.values(), exact.o.values()), tolerance);
      t.o = exact.o;
      t.lse = exact.lse;
      cpu::run_impl(attention_backward_impls()[impl], t.desc, t.backward(), device_of(90));
      EXPECT_LT(cpu::relative_error(t.grad_q.values(), exact.grad_q.values()), tolerance);
      EXPECT_LT(cpu::relative_error(t.grad_k.values(), exact.grad_k.values()), tolerance);
      EXPECT_LT(cpu::relative_error(t.grad_v.values(), exact.grad_v.values()), tolerance);
      // Without lse, as when nothing is trained.
      auto args = t.forward();
      args.lse = {};
      cpu::run_impl(attention_forward_impls()[impl], t.desc, args, device_of(90));
    }
  }
}

}  // namespace
}  // namespace ida::cuda

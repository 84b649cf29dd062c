// ops::pack on the CPU: the op and the quantisation in a row, whichever of them keeps what.
#include "backend/cpu/pack.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_device.h"
#include "backend/cpu/quantize.h"
#include "backend/cpu/rms_norm.h"
#include "backend/cpu/swiglu.h"
#include "ops/context.h"
#include "pack_case.h"

namespace ida::cpu {
namespace {

using ops::Producer;

ops::PackLists lists() {
  return {.rms_norm_forward = rms_norm_forward_impls(),
          .rms_norm_backward = rms_norm_backward_impls(),
          .swiglu_forward = swiglu_forward_impls(),
          .swiglu_backward = swiglu_backward_impls(),
          .quantize = quantize_impls()};
}

TEST(Pack, IsTheOpAndThenTheQuantisation) {
  for (const runtime::DeviceInfo& device : devices_of_every_isa()) {
    for (const Producer producer : kProducers) {
      for (const std::string_view name : kNames) {
        for (const bool keeps : {true, false}) {
          for (const bool adds : {false, true}) {
            const QuantFormat f = named(name);
            ops::PackDesc desc{.producer = producer,
                               .quantize = {.rows = 33, .cols = 96, .by_rows = f, .by_cols = f, .has_prescale = adds},
                               .keeps_matrix = keeps};
            desc.quantize.dtype = adds ? DType::kF32 : DType::kBF16;
            if (ops::refuse_pack(desc)) continue;
            PackCase want(desc, 3), got(desc, 3);
            want.run_apart(lists(), device);
            run_impl(pack_impls().front(), desc, got.args(), device);
            got.expect_same(want, desc.to_string());
          }
        }
      }
    }
  }
}

// Bits of the largest magnitude in what an op has written.
std::uint32_t largest(const HostTensor& y) {
  std::uint32_t bits = 0;
  y.for_each([&](std::int64_t r, std::int64_t c) {
    bits = std::max(bits, std::bit_cast<std::uint32_t>(static_cast<float>(y.at(r, c))) & 0x7FFFFFFFu);
  });
  return bits;
}

TEST(Pack, ProducersFindTheirAmax) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const double special : {0.0, static_cast<double>(INFINITY)}) {
      std::uint32_t amax = 0;
      const auto expect_amax = [&](const HostTensor& y) { EXPECT_EQ(amax, largest(y)); };
      const auto matrix = [&](std::int64_t cols, std::uint64_t seed) {
        HostTensor x = HostTensor(dtype, 70, cols, 3).randomize(seed);
        x.set(69, cols - 1, special == 0.0 ? -9.0 : special);
        return x;
      };
      const HostTensor x = matrix(50, 1), grad_y = matrix(50, 2), gate_up = matrix(100, 3);
      const HostTensor w = HostTensor(dtype, 1, 50).randomize(4), rstd = HostTensor(DType::kF32, 70, 1).fill(0.5);
      HostTensor y(dtype, 70, 50, 3), wide(dtype, 70, 100, 3), out_rstd(DType::kF32, 70, 1);
      const HostTensor grad_w = HostTensor(DType::kF32, 1, 50).fill(0.0);
      for_every_impl(rms_norm_forward_impls(), [&](auto run) {
        amax = 0xFFFFFFFFu;  // set, not raised
        run({70, 50, 1, 1e-5f, dtype}, {x.view(), w.view(), y.view(), out_rstd.view(), &amax});
        expect_amax(y);
      });
      for_every_impl(rms_norm_backward_impls(), [&](auto run) {
        amax = 0xFFFFFFFFu;
        run({70, 50, 1, 1e-5f, dtype}, {.grad_y = grad_y.view(),
                                        .x = x.view(),
                                        .w = w.view(),
                                        .rstd = rstd.view(),
                                        .grad_x = y.view(),
                                        .grad_w = grad_w.view(),
                                        .amax = &amax});
        expect_amax(y);
      });
      for_every_impl(swiglu_forward_impls(), [&](auto run) {
        amax = 0xFFFFFFFFu;
        run({70, 50, dtype}, {gate_up.view(), y.view(), &amax});
        expect_amax(y);
      });
      for_every_impl(swiglu_backward_impls(), [&](auto run) {
        amax = 0xFFFFFFFFu;
        run({70, 50, dtype}, {grad_y.view(), gate_up.view(), wide.view(), &amax});
        expect_amax(wide);
      });
    }
  }
}

// Arguments are checked before anything is written.
TEST(Pack, ArgumentsOfAnotherShapeAreErrors) {
  const CpuDevice device;
  const ops::Backend backend = make_cpu_backend(device.info());
  std::vector<std::byte> memory(1 << 20);
  runtime::Arena arena(memory.data(), std::ssize(memory));
  ops::Context context(device.info(), backend, arena);
  const ops::PackDesc desc{.producer = Producer::kSwigluBackward,
                           .quantize = {.rows = 32, .cols = 64, .by_rows = named("mxfp8"), .by_cols = {}}};
  PackCase t(desc);
  const auto error_of = [&](const ops::PackArgs& args) -> std::string {
    try {
      ops::pack(context, desc, args);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(t.args()), "");
  ops::PackArgs args = t.args();
  args.producer = ops::SwigluForwardArgs{.gate_up = t.x.view(), .y = t.matrix.view()};
  EXPECT_NE(error_of(args).find("not those of swiglu_backward"), std::string::npos);
  args = t.args();
  std::get<ops::SwigluBackwardArgs>(args.producer).grad_gate_up = t.x.view();
  EXPECT_NE(error_of(args).find("other tiles still read"), std::string::npos);
  args = t.args();
  std::get<ops::SwigluBackwardArgs>(args.producer).grad_y.cols = 64;
  EXPECT_NE(error_of(args).find("grad_y"), std::string::npos);
  args = t.args();
  args.quantize.by_rows.codes.cols = 63;
  EXPECT_NE(error_of(args).find("codes"), std::string::npos);
}

TEST(Pack, RefusesWhatHasNoMeaning) {
  const QuantFormat f = named("mxfp8");
  const ops::QuantizeDesc quantize{.rows = 32, .cols = 64, .by_rows = f, .by_cols = {}};
  const auto refused = [](const ops::PackDesc& desc) { return ops::refuse_pack(desc).reason; };
  EXPECT_TRUE(refused({.quantize = quantize}).empty());
  ops::PackDesc desc{.quantize = quantize};
  desc.quantize.error_feedback = true;
  EXPECT_FALSE(refused(desc).empty());
  desc = {.producer = Producer::kRmsNormBackward, .quantize = quantize, .keeps_matrix = false};
  EXPECT_FALSE(refused(desc).empty());
  desc = {.producer = Producer::kSwigluBackward, .quantize = quantize};
  EXPECT_TRUE(refused(desc).empty());
  desc.quantize.cols = 63;
  EXPECT_FALSE(refused(desc).empty());
}

}  // namespace
}  // namespace ida::cpu

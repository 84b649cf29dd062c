// Packs made on the way out of an op, on the emulated device: the bits of the op followed by the quantisation.
#include "ops/pack.h"

#include "backend/cuda/op_impls.h"
#include "backend_cpu/pack_case.h"
#include "emulated_device.h"

namespace ida::cuda {
namespace {

using namespace cpu;  // HostTensor, PackCase
using formats::Hadamard;
using formats::Rounding;
using ops::Producer;

ops::PackLists lists() {
  return {.rms_norm_forward = rms_norm_forward_impls(),
          .rms_norm_backward = rms_norm_backward_impls(),
          .swiglu_forward = swiglu_forward_impls(),
          .swiglu_backward = swiglu_backward_impls(),
          .quantize = quantize_impls()};
}

class CudaPack : public testing::Test {
 protected:
  // Both implementations, where they take it, against the op and the quantisation apart.
  void expect_same(const ops::PackDesc& desc, std::int64_t padding = 8) {
    PackCase want(desc, padding);
    want.run_apart(lists(), emulated_device());
    for (const auto& impl : pack_impls()) {
      if (impl.supports(desc, emulated_device())) continue;
      PackCase got(desc, padding);
      run_impl(impl, desc, got.args(), emulated_device());
      got.expect_same(want, fmt::format("{} {}", impl.name, desc.to_string()));
      if (impl.name == "own.pack_tiled") ++tiled_;
    }
  }
  int tiled_ = 0;
};

TEST_F(CudaPack, EveryProducerFormatAndDirection) {
  int expected = 0;
  for (const Producer producer : kProducers) {
    for (const std::string_view name : kNames) {
      const QuantFormat f = named(name);
      const bool tiles = producer != Producer::kRmsNormBackward && f.grid != ScaleGrid::kRow;
      ops::PackDesc desc{.producer = producer, .quantize = {.rows = 128, .cols = 256, .layout = ScaleLayout::kProduct}};
      const auto expect = [&](const QuantFormat& by_rows, const QuantFormat& by_cols, bool keeps) {
        desc.quantize.by_rows = by_rows;
        desc.quantize.by_cols = by_cols;
        desc.keeps_matrix = keeps || producer == Producer::kRmsNormBackward;
        expect_same(desc);
        expected += tiles ? 1 : 0;
      };
      expect(f, f, false);
      expect(f, {}, true);
      expect({}, f, false);
    }
  }
  EXPECT_EQ(tiled_, expected);
}

TEST_F(CudaPack, TilesInPart) {
  int expected = 0;
  for (const Producer producer : {Producer::kRmsNormForward, Producer::kSwigluForward, Producer::kSwigluBackward}) {
    for (const std::string_view name : {"fp8_tensor", "mxfp8", "mxfp4", "nvfp4", "fp8_vec128", "fp8_block128"}) {
      for (const bool keeps : {false, true}) {
        const std::int64_t cols = producer == Producer::kSwigluBackward ? 256 : 192;
        ops::PackDesc desc{.producer = producer, .quantize = {.rows = 160, .cols = cols}, .keeps_matrix = keeps};
        desc.quantize.by_rows = desc.quantize.by_cols = named(name);
        desc.quantize.layout = keeps ? ScaleLayout::kProduct : ScaleLayout::kRows;
        expect_same(desc);
        ++expected;
      }
    }
  }
  EXPECT_EQ(tiled_, expected);
}

TEST_F(CudaPack, EveryChoice) {
  for (const Producer producer : {Producer::kRmsNormForward, Producer::kSwigluForward, Producer::kSwigluBackward}) {
    for (const std::string_view name : {"fp8_tensor", "mxfp8", "mxfp4", "nvfp4", "fp8_block128"}) {
      QuantFormat drawn = named(name);
      drawn.rounding = Rounding::kStochastic;
      QuantFormat transformed = named(name);
      transformed.two_level = false;
      if (formats::block_size(transformed.grid) <= 32 && formats::block_size(transformed.grid) > 0)
        transformed.hadamard = Hadamard::kSeededSigns;
      ops::PackDesc desc{.producer = producer, .quantize = {.rows = 256, .cols = 256}};
      desc.quantize.by_rows = named(name);
      desc.quantize.by_cols = drawn;
      expect_same(desc);
      desc.quantize.has_prescale = true;
      desc.quantize.by_cols = transformed;
      expect_same(desc);
      if (std::string_view(name) ==
          "nvfp4") {  // the tensor's amax is that of transformed values: nothing to find on the way
        ops::PackDesc composed = desc;
        composed.quantize.by_cols.two_level = true;
        const int before = tiled_;
        expect_same(composed);
        EXPECT_EQ(tiled_, before);
      }
      desc.quantize.by_cols = named(name);
      desc.quantize.has_amax = true;
      desc.keeps_matrix = false;
      expect_same(desc);
    }
  }
  EXPECT_EQ(tiled_, 3 * 5 * 3);
}

// Sizes that no tiles take; f32; rows that do not begin on 16 bytes, which the tiled pack leaves to the composition.
TEST_F(CudaPack, WhatTilesDoNotTake) {
  for (const Producer producer : kProducers) {
    for (const std::string_view name : {"fp8_tensor", "fp8_row", "mxfp4", "nvfp4"}) {
      const QuantFormat f = named(name);
      ops::PackDesc desc{.producer = producer,
                         .quantize = {.rows = 37, .cols = 96, .by_rows = f, .by_cols = f},
                         .keeps_matrix = producer == Producer::kRmsNormBackward};
      expect_same(desc);
      desc.quantize.dtype = DType::kF32;
      expect_same(desc);
      EXPECT_EQ(tiled_, 0);
      desc.quantize.dtype = DType::kBF16;
      desc.quantize.rows = 128;
      desc.quantize.cols = 256;
      desc.keeps_matrix = true;
      expect_same(desc, 1);
      tiled_ = 0;
    }
  }
  // There is no room for a matrix that is not kept.
  PackCase unaligned({.producer = Producer::kSwigluForward,
                      .quantize = {.rows = 128, .cols = 256, .by_rows = named("mxfp8"), .by_cols = {}},
                      .keeps_matrix = false},
                     1);
  EXPECT_LT(pack_impls().front().workspace_bytes(unaligned.desc, emulated_device()), 128 * 256 * 2);
  EXPECT_ANY_THROW(run_impl(pack_impls().front(), unaligned.desc, unaligned.args(), emulated_device()));
  // A gate of whole tiles and its up are needed, not just a matrix of whole tiles.
  ops::PackDesc desc{.producer = Producer::kSwigluBackward,
                     .quantize = {.rows = 128, .cols = 384, .by_rows = named("mxfp8"), .by_cols = {}}};
  expect_same(desc);
  EXPECT_EQ(tiled_, 0);
}

// NaN and infinity pass from the op into codes and scales.
TEST_F(CudaPack, ValuesThatAreNotFinite) {
  for (const Producer producer : {Producer::kRmsNormForward, Producer::kSwigluForward, Producer::kSwigluBackward}) {
    for (const std::string_view name : kNames) {
      const QuantFormat f = named(name);
      const ops::PackDesc desc{
          .producer = producer, .quantize = {.rows = 128, .cols = 256, .by_rows = f, .by_cols = f}, .keeps_matrix = false};
      for (const double special : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
        PackCase want(desc);
        want.x.set(77, 130, special);
        want.run_apart(lists(), emulated_device());
        for (const auto& impl : pack_impls()) {
          if (impl.supports(desc, emulated_device())) continue;
          PackCase got(desc);
          got.x.set(77, 130, special);
          run_impl(impl, desc, got.args(), emulated_device());
          got.expect_same(want, fmt::format("{} {} of {}", impl.name, desc.to_string(), special));
        }
      }
    }
  }
}

std::uint32_t largest(const HostTensor& y) {
  std::uint32_t bits = 0;
  y.for_each([&](std::int64_t r, std::int64_t c) {
    bits = std::max(bits, std::bit_cast<std::uint32_t>(static_cast<float>(y.at(r, c))) & 0x7FFFFFFFu);
  });
  return bits;
}

// Of norms with a warp a row, of several warps, of rows of no whole vectors; the largest in the last element.
TEST_F(CudaPack, ProducersFindTheirAmax) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t cols : {std::int64_t{77}, std::int64_t{576}, std::int64_t{2048}, std::int64_t{4104}}) {
      for (const Producer producer : kProducers) {
        const std::int64_t matrix_cols = producer == Producer::kSwigluBackward ? 2 * cols : cols;
        const ops::PackDesc desc{.producer = producer, .quantize = {.rows = 19, .cols = matrix_cols, .dtype = dtype}};
        PackCase t(desc);
        t.x.set(18, t.x.cols() - 1, -300.0);
        t.grad_y.set(18, t.grad_y.cols() - 1, 300.0);
        std::uint32_t amax = 0xFFFFFFFFu;  // set, not raised
        auto producer_args = t.producer_args(t.matrix.view());
        std::visit([&](auto& args) { args.amax = &amax; }, producer_args);
        const auto run = [&]<typename Args>(const auto& list, const auto& op_desc) {
          run_impl(list.front(), op_desc, std::get<Args>(producer_args), emulated_device());
        };
        switch (producer) {
          case Producer::kRmsNormForward:
            run.template operator()<ops::RmsNormForwardArgs>(rms_norm_forward_impls(), desc.rms_norm());
            break;
          case Producer::kRmsNormBackward:
            run.template operator()<ops::RmsNormBackwardArgs>(rms_norm_backward_impls(), desc.rms_norm());
            break;
          case Producer::kSwigluForward:
            run.template operator()<ops::SwigluForwardArgs>(swiglu_forward_impls(), desc.swiglu());
            break;
          case Producer::kSwigluBackward:
            run.template operator()<ops::SwigluBackwardArgs>(swiglu_backward_impls(), desc.swiglu());
            break;
        }
        EXPECT_EQ(amax, largest(t.matrix)) << desc.to_string();
      }
    }
  }
}

}  // namespace
}  // namespace ida::cuda

#include "precision/host_quantize.h"

#include <functional>
#include <memory>

#include "ops/context.h"

namespace ida::precision {
namespace {

using formats::QuantFormat;

struct Buffers {
  TensorView x, codes, scales, tensor_scale, prescale, step, values;
};

Buffers allocate(runtime::Arena& arena, std::int64_t rows, std::int64_t cols, std::int64_t out_rows, std::int64_t k,
                 const QuantFormat& format, const ops::ScalesShape& shape) {
  const auto take = [&](DType dtype, std::int64_t r, std::int64_t c) {
    return arena.allocate(dtype, r, c, runtime::MemoryClass::kActivations, "quantised matrix");
  };
  return {.x = take(DType::kF32, rows, cols),
          .codes = take(DType::kU8, out_rows, formats::code_row_bytes(format, k)),
          .scales = take(shape.dtype, shape.rows, shape.cols),
          .tensor_scale = take(DType::kF32, 1, 1),
          .prescale = take(DType::kI32, 1, 1),
          .step = take(DType::kI64, 1, 1),
          .values = take(DType::kF32, out_rows, k)};
}

}  // namespace

std::uint8_t HostQuantized::code(const QuantFormat& format, std::int64_t row, std::int64_t col) const {
  const std::uint8_t* bytes = codes.data() + row * formats::code_row_bytes(format, k);
  return format.element == formats::Element::kE2m1 ? formats::nibble(bytes[col / 2], static_cast<int>(col % 2))
                                                   : bytes[col];
}

HostQuantized host_quantize(runtime::Device& device, const ops::Backend& backend, std::span<const float> x,
                            std::int64_t rows, std::int64_t cols, const QuantFormat& format,
                            const HostQuantizeOptions& options) {
  HostQuantized out{.rows = options.transposed ? cols : rows, .k = options.transposed ? rows : cols};
  out.scales_shape = ops::quantized_scales_shape(format, options.layout, out.rows, out.k);
  ops::QuantizeDesc desc{.rows = rows,
                         .cols = cols,
                         .dtype = DType::kF32,
                         .layout = options.layout,
                         .has_prescale = options.prescale.has_value()};
  (options.transposed ? desc.by_cols : desc.by_rows) = format;
  const ops::DequantizeDesc widen{
      .rows = out.rows, .cols = out.k, .format = format, .layout = options.layout, .dtype = DType::kF32};

  // Everything once on an arena without memory, to learn its size, then in earnest.
  Buffers buffers;
  const auto work = [&](ops::Context& context, const std::function<void()>& upload) {
    buffers = allocate(context.arena, rows, cols, out.rows, out.k, format, out.scales_shape);
    upload();
    const ops::QuantizedView view{
        .codes = buffers.codes, .scales = buffers.scales, .tensor_scale = buffers.tensor_scale.as<float>()};
    ops::QuantizeArgs args{.x = buffers.x,
                           .by_rows = {},
                           .by_cols = {},
                           .prescale = buffers.prescale.as<std::int32_t>(),
                           .step = reinterpret_cast<const std::uint64_t*>(buffers.step.data),
                           .seed = options.seed,
                           .tensor = options.tensor};
    (options.transposed ? args.by_cols : args.by_rows) = view;
    ops::quantize(context, desc, args);
    ops::dequantize(context, widen, {.x = view, .y = buffers.values});
  };
  runtime::Arena dry;
  ops::Context planned(device.info(), backend, dry, nullptr);
  work(planned, [] {});
  const std::int64_t size_bytes = dry.high_water_bytes();
  const auto release = [&](void* memory) { device.release(memory, size_bytes); };
  const std::unique_ptr<void, decltype(release)> memory(device.allocate(size_bytes), release);
  runtime::Arena arena(memory.get(), size_bytes);
  ops::Context context(device.info(), backend, arena, device.queue());
  work(context, [&] {
    device.copy_to_device(buffers.x.data, x.data(), buffers.x.size_bytes());
    const std::int32_t prescale = options.prescale.value_or(0);
    device.copy_to_device(buffers.prescale.data, &prescale, sizeof(prescale));
    device.copy_to_device(buffers.step.data, &options.step, sizeof(options.step));
  });
  const auto fetch = [&](auto& target, const TensorView& view) {
    target.resize(static_cast<std::size_t>(view.size_bytes()) / sizeof(target[0]));
    device.copy_to_host(target.data(), view.data, view.size_bytes());
  };
  fetch(out.codes, buffers.codes);
  fetch(out.scales, buffers.scales);
  fetch(out.values, buffers.values);
  device.copy_to_host(&out.tensor_scale, buffers.tensor_scale.data, sizeof(float));
  return out;
}

}  // namespace ida::precision

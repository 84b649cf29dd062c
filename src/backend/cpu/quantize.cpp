#include "backend/cpu/quantize.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/quantize_vector.h"
#include "base/parallel.h"
#include "formats/bf16.h"
#include "formats/block_rules.h"

namespace ida::cpu {
namespace {

using namespace formats;
using Index = std::int64_t;
using ops::DequantizeArgs;
using ops::DequantizeDesc;
using ops::Launch;
using ops::QuantizeArgs;
using ops::QuantizeDesc;
using ops::QuantizedView;

constexpr Index kStripRows = 32;

float value_at(const TensorView& x, Index row, Index col) {
  const Index at = row * x.row_stride + col;
  return x.dtype == DType::kBF16 ? to_f32(x.as<bf16>()[at]) : x.as<float>()[at];
}

std::uint8_t encode(Element element, float x) {
  switch (element) {
    case Element::kE4m3: return encode_nearest<E4m3>(x);
    case Element::kE5m2: return encode_nearest<E5m2>(x);
    case Element::kE2m1: return encode_nearest<E2m1>(x);
  }
  return 0;
}

std::uint8_t encode_drawn(Element element, float x, std::uint32_t random) {
  switch (element) {
    case Element::kE4m3: return encode_stochastic<E4m3>(x, random);
    case Element::kE5m2: return encode_stochastic<E5m2>(x, random);
    case Element::kE2m1: return encode_stochastic<E2m1>(x, random);
  }
  return 0;
}

float decode_element(Element element, std::uint8_t code) {
  switch (element) {
    case Element::kE4m3: return decode<E4m3>(code);
    case Element::kE5m2: return decode<E5m2>(code);
    case Element::kE2m1: return decode<E2m1>(code);
  }
  return 0.0f;
}

// A group: `rows` rows from `row`, `width` elements from `col`; values at `values`, rows k apart.
struct Group {
  Index row, col, rows, width;
  const float* values;
};

// The quantisation of one matrix [rows, k]: x itself or its transpose.
struct Task {
  const QuantizeDesc& desc;
  const QuantizeArgs& args;
  const QuantFormat& format;
  const QuantizedView& out;
  bool transposed = false;
  Index rows = 0;
  Index k = 0;
  float factor = 1.0f;        // the prescale
  float tensor_scale = 1.0f;  // of NVFP4, without the prescale
  F32Scale of_tensor = {};    // of fp8_tensor
  std::uint16_t signs = 0;    // of the Hadamard transform
  RandomKey key = {};

  // Values of rows [first, first + count), each k long, as they are quantised.
  void load(Index first, Index count, std::vector<float>& values) const {
    values.resize(static_cast<std::size_t>(count * k));
    for (Index outer = 0; outer < (transposed ? k : count); ++outer) {
      for (Index inner = 0; inner < (transposed ? count : k); ++inner) {
        const Index row = transposed ? inner : outer;
        const Index col = transposed ? outer : inner;
        float x = transposed ? value_at(args.x, col, first + row) : value_at(args.x, first + row, col);
        if (desc.error_feedback) x += value_at(args.carry, first + row, col);
        values[static_cast<std::size_t>(row * k + col)] = x * factor;
      }
    }
    if (format.hadamard == Hadamard::kNone) return;
    for (std::size_t at = 0; at < values.size(); at += 16) hadamard16(values.data() + at, signs);
  }

  Amax whole_amax() const {
    if (desc.has_amax) return magnitude_bits(std::bit_cast<float>(*args.amax) * factor);
    std::vector<Amax> strips(static_cast<std::size_t>((rows + kStripRows - 1) / kStripRows));
    parallel_for(std::ssize(strips), 1, [&](Index begin, Index end) {
      std::vector<float> values;
      for (Index s = begin; s < end; ++s) {
        load(s * kStripRows, std::min(kStripRows, rows - s * kStripRows), values);
        Amax amax = 0;
        for (const float v : values) amax = std::max(amax, magnitude_bits(v));
        strips[static_cast<std::size_t>(s)] = amax;
      }
    });
    return strips.empty() ? 0 : *std::max_element(strips.begin(), strips.end());
  }

  std::uint8_t code_of(float scaled, const Group& g, Index r, Index c) const {
    if (format.rounding == Rounding::kNearest) return encode(format.element, scaled);
    const Index index = (g.row + r) * k + g.col + c;
    return encode_drawn(format.element, scaled, random_bits(key, static_cast<std::uint64_t>(index)));
  }

  // Squared error of a block under a scale, in f32, rows and columns in order.
  float squared_error(const Group& g, std::uint8_t scale) const {
    float sum = 0.0f;
    for (Index r = 0; r < g.rows; ++r) {
      for (Index c = 0; c < g.width; ++c) {
        const float x = g.values[r * k + c];
        const float value = decode<E2m1>(nvfp4_code_nearest(x, scale, tensor_scale)) * decode<E4m3>(scale) * tensor_scale;
        sum += (value - x) * (value - x);
      }
    }
    return sum;
  }

  std::uint8_t nvfp4_scale(const Group& g, Amax amax) const {
    const std::uint8_t six = nvfp4_block_scale(amax, tensor_scale, 6.0f);
    if (!format.four_over_six || six == E4m3::kNanCode) return six;
    const std::uint8_t four = nvfp4_block_scale(amax, tensor_scale, 4.0f);
    return squared_error(g, four) < squared_error(g, six) ? four : six;
  }

  void put_code(Index row, Index col, std::uint8_t code) const {
    auto* bytes = out.codes.as<std::uint8_t>() + row * out.codes.row_stride;
    if (format.element != Element::kE2m1) {
      bytes[col] = code;
    } else if (col % 2 == 0) {
      bytes[col / 2] = code;
    } else {
      bytes[col / 2] = pack_nibbles(bytes[col / 2], code);
    }
  }

  void put_carry(const Group& g, Index r, Index c, float value) const {
    float& carry = args.carry.as<float>()[(g.row + r) * args.carry.row_stride + g.col + c];
    carry = value_at(args.x, g.row + r, g.col + c) + carry - value / factor;
  }

  void quantize_group(const Group& g, Index block) const {
    Amax amax = 0;
    for (Index r = 0; r < g.rows; ++r)
      for (Index c = 0; c < g.width; ++c) amax = std::max(amax, magnitude_bits(g.values[r * k + c]));
    const bool wide = has_f32_scales(format.grid);
    const bool nvfp4 = format.grid == ScaleGrid::kNv16;
    F32Scale f32 = of_tensor;
    std::uint8_t scale = 0;
    float multiplier = 1.0f;  // what a value is encoded from, except by NVFP4's rule of the quotient
    if (wide) {
      if (format.grid != ScaleGrid::kTensor) f32 = f32_scale(amax, format.element, format.power_of_two_scale);
      multiplier = f32.encode;
    } else if (nvfp4) {
      scale = nvfp4_scale(g, amax);
      multiplier = nvfp4_encode_factor(scale, tensor_scale);
    } else {
      scale = mx_scale(amax, format.element, format.scale_rule);
      multiplier = mx_encode_factor(scale);
    }
    const bool no_codes = nvfp4 && (scale == 0 || scale == E4m3::kNanCode);
    const float decode_scale = wide ? f32.decode : nvfp4 ? decode<E4m3>(scale) : decode_ue8m0(scale);
    for (Index r = 0; r < g.rows; ++r) {
      for (Index c = 0; c < g.width; ++c) {
        const float x = g.values[r * k + c];
        std::uint8_t code = 0;
        if (nvfp4 && format.rounding == Rounding::kNearest) {
          code = nvfp4_code_nearest(x, scale, tensor_scale);
        } else if (!no_codes) {
          code = code_of(x * multiplier, g, r, c);
        }
        put_code(g.row + r, g.col + c, code);
        if (desc.error_feedback) put_carry(g, r, c, decode_element(format.element, code) * decode_scale * tensor_scale);
      }
      if (format.grid == ScaleGrid::kTensor) continue;  // written by run()
      const Index place = scale_place(format, desc.layout, out.scales, g.row + r, block, k);
      if (wide) {
        out.scales.as<float>()[place] = f32.decode;
      } else {
        out.scales.as<std::uint8_t>()[place] = scale;
      }
    }
  }

  void run() {
    if (desc.has_prescale) factor = exp2_f32(*args.prescale);
    key = {
        .seed = args.seed, .tensor = 2 * args.tensor + (transposed ? 1 : 0), .step = args.step != nullptr ? *args.step : 0};
    signs = format.hadamard == Hadamard::kFixedSigns ? kHadamardSigns : hadamard_signs(args.seed, key.step);
    const bool by_tensor = format.grid == ScaleGrid::kTensor;
    const bool two_level = format.grid == ScaleGrid::kNv16 && format.two_level;
    if (by_tensor || two_level) {
      const Amax amax = whole_amax();
      if (two_level) tensor_scale = nvfp4_tensor_scale(amax, format);
      if (by_tensor) of_tensor = f32_scale(amax, format.element, format.power_of_two_scale);
      if (by_tensor) *out.scales.as<float>() = of_tensor.decode;
    }
    if (out.tensor_scale != nullptr) *out.tensor_scale = tensor_scale / factor;
    if (desc.layout == ScaleLayout::kProduct && !by_tensor)
      std::memset(out.scales.data, 0,
                  static_cast<std::size_t>(out.scales.rows * out.scales.row_stride * dtype_size_bytes(out.scales.dtype)));
    const Index group_rows = std::max<Index>(block_rows(format), 1);
    const Index strip = std::max(group_rows, kStripRows);
    const Index block = block_size(format.grid) == 0 ? std::max<Index>(k, 1) : block_size(format.grid);
    parallel_for((rows + strip - 1) / strip, 1, [&](Index begin, Index end) {
      std::vector<float> values;
      for (Index s = begin; s < end; ++s) {
        const Index first = s * strip;
        const Index count = std::min(strip, rows - first);
        load(first, count, values);
        for (Index r = 0; r < count; r += group_rows) {
          for (Index c = 0; c < k; c += block) {
            const Group group{first + r, c, std::min(group_rows, count - r), std::min(block, k - c),
                              values.data() + r * k + c};
            quantize_group(group, c / block);
          }
        }
      }
    });
  }
};

void quantize_definition(const QuantizeDesc& desc, const QuantizeArgs& args, const Launch&) {
  if (desc.by_rows.grid != ScaleGrid::kNone)
    Task{desc, args, desc.by_rows, args.by_rows, false, desc.rows, desc.cols}.run();
  if (desc.by_cols.grid != ScaleGrid::kNone) Task{desc, args, desc.by_cols, args.by_cols, true, desc.cols, desc.rows}.run();
}

ops::Refusal quantize_supports(const QuantizeDesc& desc, const runtime::DeviceInfo&) { return ops::refuse_choices(desc); }

ops::Refusal dequantize_supports(const DequantizeDesc& desc, const runtime::DeviceInfo&) {
  if (desc.dtype != DType::kF32 && desc.dtype != DType::kBF16) return {ops::RefusalKind::kDType, "gives f32 and bf16"};
  return ops::kAccepted;
}

void dequantize_row(const DequantizeDesc& desc, const DequantizeArgs& args, float tensor_scale, Index row) {
  const QuantFormat& format = desc.format;
  const Index block = block_size(format.grid) == 0 ? std::max<Index>(desc.cols, 1) : block_size(format.grid);
  const auto* codes = args.x.codes.as<std::uint8_t>() + row * args.x.codes.row_stride;
  for (Index col = 0; col < desc.cols; ++col) {
    const Index place = scale_place(format, desc.layout, args.x.scales, row, col / block, desc.cols);
    float scale = 0.0f;
    if (has_f32_scales(format.grid)) {
      scale = args.x.scales.as<float>()[place];
    } else {
      const std::uint8_t byte = args.x.scales.as<std::uint8_t>()[place];
      scale = format.grid == ScaleGrid::kNv16 ? decode<E4m3>(byte) : decode_ue8m0(byte);
    }
    const std::uint8_t code =
        format.element == Element::kE2m1 ? nibble(codes[col / 2], static_cast<int>(col % 2)) : codes[col];
    const float value = decode_element(format.element, code) * scale * tensor_scale;
    const Index at = row * args.y.row_stride + col;
    if (desc.dtype == DType::kBF16) {
      args.y.as<bf16>()[at] = bf16_from_f32(value);
    } else {
      args.y.as<float>()[at] = value;
    }
  }
}

void dequantize_definition(const DequantizeDesc& desc, const DequantizeArgs& args, const Launch&) {
  const bool scaled = desc.with_tensor_scale && args.x.tensor_scale != nullptr;
  const float tensor_scale = scaled ? *args.x.tensor_scale : 1.0f;
  parallel_for(desc.rows, 8, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) dequantize_row(desc, args, tensor_scale, row);
  });
}

}  // namespace

ops::QuantizeList quantize_impls() {
  return {quantize_vector(), {"cpu.definition", quantize_supports, nullptr, quantize_definition}};
}
ops::DequantizeList dequantize_impls() {
  return {dequantize_vector(), {"cpu.definition", dequantize_supports, nullptr, dequantize_definition}};
}

}  // namespace ida::cpu

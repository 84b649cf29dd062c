#include "backend/cpu/quantize_vector.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using namespace formats;
using ops::DequantizeArgs;
using ops::DequantizeDesc;
using ops::Launch;
using ops::QuantizeArgs;
using ops::QuantizeDesc;
using ops::QuantizedView;

// What blocks are cut from has to be whole: the width of a tile is rounded up to this.
Index tile_unit(ScaleGrid grid) { return block_size(grid) == 0 ? 32 : block_size(grid); }

// Memory of one thread.
struct Scratch {
  alignas(64) float values[kTileRows * kTileStride];
  alignas(64) std::uint32_t amax[kTileRows * kTileWidth / 16];
  alignas(64) std::uint8_t scales[kTileRows * kTileWidth / 16];
  alignas(64) std::uint8_t codes[kTileRows * kTileWidth];
  F32Scale wide[kTileRows * kTileWidth / 16];
  float factors[kTileRows * kTileWidth / 16];
};

// The quantisation of one matrix [rows, k]: x itself or its transpose.
struct Task {
  const QuantizeDesc& desc;
  const QuantizeArgs& args;
  const OpKernels& kernels;
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

  bool as_it_is() const { return !desc.has_prescale && format.hadamard == Hadamard::kNone; }

  // Rows [row, row + count), elements [col, col + width) and zeros up to whole blocks.
  Tile read(Index row, Index count, Index col, Index width, Scratch& scratch) const {
    const Index unit = tile_unit(format.grid);
    const Index padded = (width + unit - 1) / unit * unit;
    if (as_it_is() && !transposed && padded == width)
      return {element_address(args.x, row, col), desc.dtype, args.x.row_stride, count, width};
    const DType dtype = as_it_is() ? desc.dtype : DType::kF32;
    kernels.quantize_read({.x = args.x,
                           .transposed = transposed,
                           .row = row,
                           .rows = count,
                           .col = col,
                           .width = width,
                           .padded_width = padded,
                           .factor = factor,
                           .hadamard = format.hadamard != Hadamard::kNone,
                           .signs = signs},
                          dtype, scratch.values);
    return {scratch.values, dtype, kTileStride, count, padded};
  }

  // Calls body(tile, col, width) for the tiles of rows [row, row + count), count <= kTileRows.
  template <typename Body>
  void for_tiles(Index row, Index count, Scratch& scratch, Body&& body) const {
    for (Index col = 0; col < k; col += kTileWidth) {
      const Index width = std::min(kTileWidth, k - col);
      body(read(row, count, col, width, scratch), col, width);
    }
  }

  Amax whole_amax() const {
    if (desc.has_amax) return magnitude_bits(std::bit_cast<float>(*args.amax) * factor);
    std::vector<Amax> strips(static_cast<std::size_t>((rows + kTileRows - 1) / kTileRows));
    parallel_for(std::ssize(strips), 1, [&](Index begin, Index end) {
      const auto scratch = std::make_unique_for_overwrite<Scratch>();
      for (Index s = begin; s < end; ++s) {
        Amax amax = 0;
        for_tiles(s * kTileRows, std::min(kTileRows, rows - s * kTileRows), *scratch, [&](const Tile& tile, Index, Index) {
          kernels.quantize_amax(tile, tile.width, scratch->amax);
          amax = std::max(amax, *std::max_element(scratch->amax, scratch->amax + tile.rows));
        });
        strips[static_cast<std::size_t>(s)] = amax;
      }
    });
    return strips.empty() ? 0 : *std::max_element(strips.begin(), strips.end());
  }

  F32Scale wide_scale(Amax amax) const { return f32_scale(amax, format.element, format.power_of_two_scale); }

  void encode(const Tile& tile, Index block, Index row, Index col, Index width, Scratch& scratch) const {
    const bool whole = width == tile.width;
    std::uint8_t* codes = out.codes.as<std::uint8_t>() + row * out.codes.row_stride + code_row_bytes(format, col);
    kernels.quantize_encode(tile, {.format = format,
                                   .block = block,
                                   .scales = scratch.scales,
                                   .factors = has_f32_scales(format.grid) ? scratch.factors : nullptr,
                                   .tensor_scale = tensor_scale,
                                   .key = key,
                                   .first_index = row * k + col,
                                   .row_indices = k,
                                   .codes = whole ? codes : scratch.codes,
                                   .codes_stride = whole ? out.codes.row_stride : kTileWidth});
    for (Index r = 0; r < tile.rows && !whole; ++r) {
      std::memcpy(codes + r * out.codes.row_stride, scratch.codes + r * kTileWidth,
                  static_cast<std::size_t>(code_row_bytes(format, width)));
    }
  }

  template <typename T, typename Scale>
  void put_scales(Index row, Index count, Index first_block, Index blocks, Scale&& scale) const {
    for (Index r = 0; r < count; ++r)
      for (Index b = 0; b < blocks; ++b)
        out.scales.as<T>()[scale_place(format, desc.layout, out.scales, row + r, first_block + b, k)] = scale(r, b);
  }

  // Blocks of a row that lie within tiles: MX, NVFP4, 1 x 128.
  void short_blocks(Index row, Index count, Scratch& scratch) const {
    const Index block = block_size(format.grid);
    for_tiles(row, count, scratch, [&](const Tile& tile, Index col, Index width) {
      const Index blocks = tile.width / block;
      const Index size = tile.rows * blocks;
      kernels.quantize_amax(tile, block, scratch.amax);
      if (format.grid == ScaleGrid::kVec128) {
        for (Index i = 0; i < size; ++i) {
          scratch.wide[i] = wide_scale(scratch.amax[i]);
          scratch.factors[i] = scratch.wide[i].encode;
        }
        put_scales<float>(row, count, col / block, blocks,
                          [&](Index r, Index b) { return scratch.wide[r * blocks + b].decode; });
      } else {
        if (format.grid == ScaleGrid::kNv16) {
          kernels.quantize_nv_scales(scratch.amax, size, tensor_scale, scratch.scales);
        } else {
          kernels.quantize_mx_scales(scratch.amax, size, format, scratch.scales);
        }
        put_scales<std::uint8_t>(row, count, col / block, blocks,
                                 [&](Index r, Index b) { return scratch.scales[r * blocks + b]; });
      }
      encode(tile, block, row, col, width, scratch);
    });
  }

  // One scale a row or a tensor.
  void whole_rows(Index row, Index count, Scratch& scratch) const {
    F32Scale scales[kTileRows];
    std::fill_n(scales, kTileRows, of_tensor);
    if (format.grid == ScaleGrid::kRow) {
      Amax amax[kTileRows] = {};
      for_tiles(row, count, scratch, [&](const Tile& tile, Index, Index) {
        kernels.quantize_amax(tile, tile.width, scratch.amax);
        for (Index r = 0; r < count; ++r) amax[r] = std::max(amax[r], scratch.amax[r]);
      });
      for (Index r = 0; r < count; ++r) scales[r] = wide_scale(amax[r]);
      put_scales<float>(row, count, 0, k > 0 ? 1 : 0, [&](Index r, Index) { return scales[r].decode; });
    }
    for_tiles(row, count, scratch, [&](const Tile& tile, Index col, Index width) {
      for (Index r = 0; r < count; ++r) scratch.factors[r] = scales[r].encode;
      encode(tile, tile.width, row, col, width, scratch);
    });
  }

  // 128 x 128: up to 128 rows, in tiles twice.
  void square_blocks(Index row, Index count, Scratch& scratch) const {
    std::vector<Amax> amax(static_cast<std::size_t>((k + 127) / 128), 0);
    for (Index r = 0; r < count; r += kTileRows) {
      for_tiles(row + r, std::min(kTileRows, count - r), scratch, [&](const Tile& tile, Index col, Index) {
        const Index blocks = tile.width / 128;
        kernels.quantize_amax(tile, 128, scratch.amax);
        for (Index i = 0; i < tile.rows * blocks; ++i) {
          Amax& largest = amax[static_cast<std::size_t>(col / 128 + i % blocks)];
          largest = std::max(largest, scratch.amax[i]);
        }
      });
    }
    put_scales<float>(row, 1, 0, std::ssize(amax),
                      [&](Index, Index b) { return wide_scale(amax[static_cast<std::size_t>(b)]).decode; });
    for (Index r = 0; r < count; r += kTileRows) {
      for_tiles(row + r, std::min(kTileRows, count - r), scratch, [&](const Tile& tile, Index col, Index width) {
        const Index blocks = tile.width / 128;
        for (Index i = 0; i < tile.rows * blocks; ++i)
          scratch.factors[i] = wide_scale(amax[static_cast<std::size_t>(col / 128 + i % blocks)]).encode;
        encode(tile, 128, row + r, col, width, scratch);
      });
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
      if (by_tensor) of_tensor = wide_scale(amax);
      if (by_tensor) *out.scales.as<float>() = of_tensor.decode;
    }
    if (out.tensor_scale != nullptr) *out.tensor_scale = tensor_scale / factor;
    if (desc.layout == ScaleLayout::kProduct && !by_tensor)
      std::memset(out.scales.data, 0,
                  static_cast<std::size_t>(out.scales.rows * out.scales.row_stride * dtype_size_bytes(out.scales.dtype)));
    const Index strip = format.grid == ScaleGrid::kBlock128 ? 128 : kTileRows;
    parallel_for((rows + strip - 1) / strip, 1, [&](Index begin, Index end) {
      const auto scratch = std::make_unique_for_overwrite<Scratch>();
      for (Index s = begin; s < end; ++s) {
        const Index row = s * strip;
        const Index count = std::min(strip, rows - row);
        if (format.grid == ScaleGrid::kBlock128) {
          square_blocks(row, count, *scratch);
        } else if (block_size(format.grid) == 0) {
          whole_rows(row, count, *scratch);
        } else {
          short_blocks(row, count, *scratch);
        }
      }
    });
  }
};

void quantize_run(const QuantizeDesc& desc, const QuantizeArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  if (desc.by_rows.grid != ScaleGrid::kNone)
    Task{desc, args, kernels, desc.by_rows, args.by_rows, false, desc.rows, desc.cols}.run();
  if (desc.by_cols.grid != ScaleGrid::kNone)
    Task{desc, args, kernels, desc.by_cols, args.by_cols, true, desc.cols, desc.rows}.run();
}

ops::Refusal quantize_supports(const QuantizeDesc& desc, const runtime::DeviceInfo&) {
  if (const ops::Refusal refusal = ops::refuse_choices(desc)) return refusal;
  if (desc.error_feedback) return {ops::RefusalKind::kDType, "keeps no carry"};
  if (desc.by_rows.square_blocks || desc.by_cols.square_blocks)
    return {ops::RefusalKind::kDType, "takes no square blocks of mxfp8, mxfp4 and nvfp4"};
  if (desc.by_rows.four_over_six || desc.by_cols.four_over_six) return {ops::RefusalKind::kDType, "takes no four-over-six"};
  return ops::kAccepted;
}

ops::Refusal dequantize_supports(const DequantizeDesc& desc, const runtime::DeviceInfo&) {
  if (!is_float_dtype(desc.dtype)) return {ops::RefusalKind::kDType, "gives f32 and bf16"};
  return ops::kAccepted;
}

void dequantize_run(const DequantizeDesc& desc, const DequantizeArgs& args, const Launch& launch) {
  const QuantFormat& format = desc.format;
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  const bool scaled = desc.with_tensor_scale && args.x.tensor_scale != nullptr;
  const Index blocks = scales_per_row(format, desc.cols);
  parallel_for(desc.rows, rows_per_piece(desc.cols), [&](Index begin, Index end) {
    std::vector<float> scales(static_cast<std::size_t>(blocks));
    for (Index row = begin; row < end; ++row) {
      for (Index b = 0; b < blocks && desc.cols > 0; ++b) {
        const Index place = scale_place(format, desc.layout, args.x.scales, row, b, desc.cols);
        float& scale = scales[static_cast<std::size_t>(b)];
        if (has_f32_scales(format.grid)) {
          scale = args.x.scales.as<float>()[place];
        } else {
          const std::uint8_t byte = args.x.scales.as<std::uint8_t>()[place];
          scale = format.grid == ScaleGrid::kNv16 ? decode<E4m3>(byte) : decode_ue8m0(byte);
        }
      }
      kernels.dequantize({.element = format.element,
                          .codes = args.x.codes.as<std::uint8_t>() + row * args.x.codes.row_stride,
                          .scales = scales.data(),
                          .block = block_size(format.grid) == 0 ? std::max<Index>(desc.cols, 1) : block_size(format.grid),
                          .width = desc.cols,
                          .tensor_scale = scaled ? *args.x.tensor_scale : 1.0f},
                         desc.dtype, element_address(args.y, row, 0));
    }
  });
}

}  // namespace

ops::Impl<QuantizeDesc, QuantizeArgs> quantize_vector() { return {"cpu.vector", quantize_supports, nullptr, quantize_run}; }
ops::Impl<DequantizeDesc, DequantizeArgs> dequantize_vector() {
  return {"cpu.vector", dequantize_supports, nullptr, dequantize_run};
}

}  // namespace ida::cpu

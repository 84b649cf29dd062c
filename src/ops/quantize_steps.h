// The preparation of a quantised operand in passes of its own, each reading and writing memory: what is done where nothing
// is fused. `bench gemm --with-pack` times it beside ops::quantize; nothing else runs it. Together the steps give the codes
// and scales of ops::quantize by rows, nearest, without options; by columns after a transposition.
#pragma once
#include <string>

#include "base/tensor.h"
#include "formats/quant_format.h"
#include "ops/impl_list.h"

namespace ida::ops {

enum class QuantizeStep : std::uint8_t {
  kTranspose,  // x bf16 [rows, cols] -> out bf16 [cols, rows]
  kAmax,       // x bf16 -> out i32 (formats::Amax) [rows, scales_per_row]; [1, 1] where a tensor has one scale
  kQuantize,   // x bf16, amax, tensor_amax -> out u8 [rows, cols], one code a byte, and scales row-major
  kPack,       // x u8 [rows, cols] -> out u8 [rows, cols / 2]: two e2m1 codes a byte; cols even
  kSwizzle,    // x u8 [rows, cols] -> out u8 [1, tiled bytes]: scales as products read them
};
std::string_view quantize_step_name(QuantizeStep step);  // "transpose", "amax", ...

struct QuantizeStepDesc {
  QuantizeStep step = QuantizeStep::kTranspose;
  std::int64_t rows = 0;  // of x
  std::int64_t cols = 0;
  formats::QuantFormat format = {};  // kAmax, kQuantize: fp8_tensor, MX or NVFP4
  std::string to_string() const;
};
struct QuantizeStepArgs {
  TensorView x;
  TensorView out;
  TensorView amax = {};         // kQuantize: what kAmax gave
  TensorView tensor_amax = {};  // kQuantize, NVFP4 of two levels: [1, 1]
  TensorView scales = {};       // kQuantize: written; f32 [1, 1] or u8 [rows, scales_per_row]
};

using QuantizeStepList = ImplList<QuantizeStepDesc, QuantizeStepArgs>;

}  // namespace ida::ops

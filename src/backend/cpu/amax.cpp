#include "backend/cpu/amax.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/op_support.h"
#include "formats/bf16.h"
#include "formats/block_rules.h"

namespace ida::cpu {

void store_amax(std::uint32_t* amax, const TensorView& matrix) {
  if (amax == nullptr) return;
  std::atomic<formats::Amax> result = 0;
  for_row_pieces(matrix.rows, matrix.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t size) {
    formats::Amax most = 0;
    for (std::int64_t c = begin; c < begin + size; ++c) {
      const std::int64_t at = row * matrix.row_stride + c;
      const float x = matrix.dtype == DType::kBF16 ? to_f32(matrix.as<bf16>()[at]) : matrix.as<float>()[at];
      most = std::max(most, formats::magnitude_bits(x));
    }
    formats::Amax seen = result.load();
    while (most > seen && !result.compare_exchange_weak(seen, most)) {
    }
  });
  *amax = result;
}

}  // namespace ida::cpu

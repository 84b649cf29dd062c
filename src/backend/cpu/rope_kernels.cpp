#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernel_functions.h"
#include "backend/cpu/simd.h"

namespace {

using namespace ida;

// Products and sums are rounded one by one, as in the definition: the bits are the same.
template <typename T>
void rotate_rows(const ops::RopeDesc& desc, const ops::RopeArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = desc.rotary_dim / 2;
  const float sign = desc.direction == ops::RopeDirection::kForward ? 1.0f : -1.0f;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t position = static_cast<const std::int32_t*>(args.positions.data)[row];
    const float* cos_row = row_of<const float>(args.cos, position);
    const float* sin_row = row_of<const float>(args.sin, position);
    for (std::int64_t head = 0; head < desc.num_heads; ++head) {
      T* first = row_of<T>(args.x, row) + head * desc.head_dim;
      T* second = first + half;
      for_vectors(half, [&](std::int64_t c, auto lanes) {
        const F32 a = load(first + c, lanes);
        const F32 b = load(second + c, lanes);
        const F32 cosine = load(cos_row + c, lanes);
        const F32 sine = load(sin_row + c, lanes) * sign;
        store(first + c, a * cosine - b * sine, lanes);
        store(second + c, b * cosine + a * sine, lanes);
      });
    }
  }
}

}  // namespace

namespace ida::cpu::IDA_ISA_NAMESPACE {

void rope(const ops::RopeDesc& desc, const ops::RopeArgs& args, Index begin, Index end) {
  with_element_type(desc.dtype, [&](auto type) { rotate_rows<decltype(type)>(desc, args, begin, end); });
}

}  // namespace ida::cpu::IDA_ISA_NAMESPACE

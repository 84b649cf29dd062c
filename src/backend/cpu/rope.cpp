#include "backend/cpu/rope.h"

#include "backend/cpu/kernel_rows.h"
#include "backend/cpu/op_kernels.h"
#include "backend/cpu/op_support.h"

namespace ida::cpu {
namespace {

using ops::Launch;
using ops::RopeArgs;
using ops::RopeDesc;

template <typename T>
void rope_plain(const RopeDesc& desc, const RopeArgs& args) {
  const Index half = desc.rotary_dim / 2;
  const float sign = desc.direction == ops::RopeDirection::kForward ? 1.0f : -1.0f;
  for (Index row = 0; row < desc.rows; ++row) {
    const Index position = args.positions.as<std::int32_t>()[row];
    const float* cosine = row_of<const float>(args.cos, position);
    const float* sine = row_of<const float>(args.sin, position);
    for (Index head = 0; head < desc.num_heads; ++head) {
      T* x = row_of<T>(args.x, row) + head * desc.head_dim;
      for (Index i = 0; i < half; ++i) {
        const float a = to_f32(x[i]);
        const float b = to_f32(x[i + half]);
        x[i] = from_f32<T>(a * cosine[i] - b * (sine[i] * sign));
        x[i + half] = from_f32<T>(b * cosine[i] + a * (sine[i] * sign));
      }
    }
  }
}

void check_positions(const RopeArgs& args, Index begin, Index end) {
  for (Index row = begin; row < end; ++row) {
    [[maybe_unused]] const Index position = args.positions.as<std::int32_t>()[row];
    assert(position >= 0 && position < args.cos.rows && position < args.sin.rows);
  }
}

void rope_definition(const RopeDesc& desc, const RopeArgs& args, const Launch&) {
  check_positions(args, 0, desc.rows);
  with_element_type(desc.dtype, [&](auto type) { rope_plain<decltype(type)>(desc, args); });
}

void rope_vector(const RopeDesc& desc, const RopeArgs& args, const Launch& launch) {
  const OpKernels& kernels = op_kernels(launch.device.cpu);
  parallel_for(desc.rows, rows_per_piece(desc.num_heads * desc.head_dim), [&](Index begin, Index end) {
    check_positions(args, begin, end);
    kernels.rope(desc, args, begin, end);
  });
}

}  // namespace

ops::RopeList rope_impls() {
  return {{"cpu.vector", any_shape<RopeDesc>, nullptr, rope_vector},
          {"cpu.definition", any_shape<RopeDesc>, nullptr, rope_definition}};
}

}  // namespace ida::cpu

// Fills a tensor, as initial weights want it: y[i] = value + std_dev * n[i], where n[i] is the i-th value of N(0, 1) in
// stream `stream` of `seed` (base/rng.h). Product and sum are rounded to f32 one after the other; every device writes the
// same bits.
#pragma once
#include <string>

#include "base/tensor.h"
#include "ops/impl_list.h"

namespace ida::ops {

struct FillDesc {
  std::int64_t size = 0;
  std::string to_string() const;
};
struct FillArgs {
  TensorView y;  // [1, size] f32
  float value = 0.0f;
  float std_dev = 0.0f;  // 0: the value alone
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

using FillList = ImplList<FillDesc, FillArgs>;

}  // namespace ida::ops

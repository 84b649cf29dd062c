// Sixteen elements along K by the rules of formats/block_rules.h: what every kernel that is not in a hurry does.
#pragma once
#include "backend/cuda/kernels/quantize_matrix.cuh"

namespace ida::cuda {

struct Chunk {
  float at[kChunk];
  int count = 0;
};

// Elements [k, k + kChunk) of `row`, those beyond the end zero; prescaled, with the carry, transformed.
template <typename T>
__device__ inline Chunk load_chunk(const Direction& d, std::int64_t row, std::int64_t k, float prescale,
                                   std::uint16_t signs) {
  Chunk c;
  c.count = static_cast<int>(d.k - k < kChunk ? d.k - k : kChunk);
  const T* x = static_cast<const T*>(d.x) + row * d.x_row + k * d.x_k;
  for (int i = 0; i < kChunk; ++i) {
    float u = i < c.count ? to_float(x[i * d.x_k]) : 0.0f;
    if (d.carry != nullptr && i < c.count) u += d.carry[row * d.carry_stride + k + i];
    c.at[i] = u * prescale;
  }
  if (d.out.format.hadamard != formats::Hadamard::kNone) formats::hadamard16(c.at, signs);
  return c;
}

__device__ inline formats::Amax chunk_amax(const Chunk& c) {
  formats::Amax amax = 0;
  for (int i = 0; i < c.count; ++i) {
    const formats::Amax m = formats::magnitude_bits(c.at[i]);
    amax = m > amax ? m : amax;
  }
  return amax;
}

// What the elements of a group share.
struct GroupScale {
  std::uint8_t byte = 0;      // of MX and NVFP4
  float f32 = 1.0f;           // of the others
  float encode = 1.0f;        // an element is encoded from its product with this
  float tensor_scale = 1.0f;  // of NVFP4
};

__device__ inline GroupScale group_scale(const formats::QuantFormat& f, formats::Amax amax, formats::Amax tensor_amax) {
  GroupScale s;
  if (f.grid == formats::ScaleGrid::kMx32) {
    s.byte = formats::mx_scale(amax, f.element, f.scale_rule);
    s.encode = formats::mx_encode_factor(s.byte);
  } else if (f.grid == formats::ScaleGrid::kNv16) {
    s.tensor_scale = formats::nvfp4_tensor_scale(tensor_amax, f);
    s.byte = formats::nvfp4_block_scale(amax, s.tensor_scale, 6.0f);
    s.encode = formats::nvfp4_encode_factor(s.byte, s.tensor_scale);
  } else {
    const formats::F32Scale scale = formats::f32_scale(amax, f.element, f.power_of_two_scale);
    s.encode = scale.encode;
    s.f32 = scale.decode;
  }
  return s;
}

// What a group's codes are multiplied with, the prescale aside.
__device__ inline float decode_scale(const formats::QuantFormat& f, const GroupScale& s) {
  if (formats::has_f32_scales(f.grid)) return s.f32;
  return f.grid == formats::ScaleGrid::kMx32 ? formats::decode_ue8m0(s.byte) : formats::decode<formats::E4m3>(s.byte);
}

template <typename E>
__device__ inline std::uint8_t element_code(const formats::QuantFormat& f, const GroupScale& s, float x,
                                            std::uint32_t random) {
  if (f.grid == formats::ScaleGrid::kNv16 && (s.byte == 0 || s.byte == formats::E4m3::kNanCode)) return 0;
  if (f.rounding == formats::Rounding::kStochastic) return formats::encode_stochastic<E>(x * s.encode, random);
  if (f.grid == formats::ScaleGrid::kNv16) return formats::nvfp4_code_nearest(x, s.byte, s.tensor_scale);
  return formats::encode_nearest<E>(x * s.encode);
}

}  // namespace ida::cuda

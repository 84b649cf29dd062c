// formats/mxfp8_flat.h over whole arrays, and bf16, which numpy does not have.
#include "formats/mxfp8_flat.h"

#include <nanobind/stl/pair.h>

#include <algorithm>

#include "arrays.h"
#include "base/parallel.h"
#include "formats/bf16.h"

namespace ida::python {
namespace {

using Bytes = nb::ndarray<nb::numpy, std::uint8_t>;
constexpr std::int64_t kGrain = 512;  // blocks, or elements times 32, that a thread takes at a time

// (codes, scales) of a flat tensor.
std::pair<Bytes, Bytes> encode(const Input<float, 1>& x) {
  const auto size = static_cast<std::int64_t>(x.size());
  const std::int64_t num_blocks = formats::mxfp8_flat_scales(size);
  Bytes codes = make_array<std::uint8_t>({static_cast<std::size_t>(size)});
  Bytes scales = make_array<std::uint8_t>({static_cast<std::size_t>(num_blocks)});
  const nb::gil_scoped_release released;
  parallel_for(num_blocks, kGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t begin = block * formats::kFlatBlock;
      const std::int64_t end = std::min(begin + formats::kFlatBlock, size);
      formats::Amax amax = 0;
      for (std::int64_t i = begin; i < end; ++i) amax = std::max(amax, formats::magnitude_bits(x.data()[i]));
      scales.data()[block] = formats::mxfp8_flat_scale(amax);
      const float factor = formats::mxfp8_flat_factor(scales.data()[block]);
      for (std::int64_t i = begin; i < end; ++i) codes.data()[i] = formats::mxfp8_flat_code(x.data()[i], factor);
    }
  });
  return {codes, scales};
}

// Sizes are the caller's duty: scales.size() == ceil(codes.size() / 32).
nb::ndarray<nb::numpy, float> decode(const Input<std::uint8_t, 1>& codes, const Input<std::uint8_t, 1>& scales) {
  const auto size = static_cast<std::int64_t>(codes.size());
  if (static_cast<std::int64_t>(scales.size()) != formats::mxfp8_flat_scales(size))
    throw nb::value_error("one scale for every 32 codes is needed");
  nb::ndarray<nb::numpy, float> y = make_array<float>({codes.size()});
  const nb::gil_scoped_release released;
  parallel_for(size, kGrain * formats::kFlatBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      y.data()[i] = formats::decode<formats::E4m3>(codes.data()[i]) *
                    formats::mxfp8_flat_factor(scales.data()[i / formats::kFlatBlock]);
  });
  return y;
}

nb::ndarray<nb::numpy, std::uint16_t> round_bf16(const Input<float, 1>& x) {
  nb::ndarray<nb::numpy, std::uint16_t> y = make_array<std::uint16_t>({x.size()});
  for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] = bf16_from_f32(x.data()[i]).bits;
  return y;
}

nb::ndarray<nb::numpy, float> widen_bf16(const Input<std::uint16_t, 1>& x) {
  nb::ndarray<nb::numpy, float> y = make_array<float>({x.size()});
  for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] = to_f32(bf16{x.data()[i]});
  return y;
}

}  // namespace

void bind_mxfp8_flat(nb::module_& module) {
  module.attr("MXFP8_FLAT_NAME") = nb::str(formats::kMxfp8FlatName.data(), formats::kMxfp8FlatName.size());
  module.def("encode_mxfp8_flat", encode, nb::arg("x").noconvert());
  module.def("decode_mxfp8_flat", decode, nb::arg("codes").noconvert(), nb::arg("scales").noconvert());
  module.def("round_bf16", round_bf16, nb::arg("x").noconvert());
  module.def("widen_bf16", widen_bf16, nb::arg("x").noconvert());
}

}  // namespace ida::python

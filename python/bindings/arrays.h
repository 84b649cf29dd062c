// numpy arrays as the bindings take and make them.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <memory>

namespace ida::python {

namespace nb = nanobind;

// Row-major, on the host, of exactly this type: bindings never convert.
template <typename T, std::size_t kRank>
using Input = nb::ndarray<const T, nb::ndim<kRank>, nb::c_contig, nb::device::cpu>;

// An array of its own memory, contents undefined.
template <typename T>
nb::ndarray<nb::numpy, T> make_array(std::initializer_list<std::size_t> shape) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size *= extent;
  auto memory = std::make_unique<T[]>(size);
  nb::capsule owner(memory.get(), [](void* data) noexcept { delete[] static_cast<T*>(data); });
  return nb::ndarray<nb::numpy, T>(memory.release(), shape, owner);
}

void bind_mxfp8_flat(nb::module_& module);
void bind_quantize(nb::module_& module);
void bind_safetensors(nb::module_& module);

}  // namespace ida::python

// checkpoint/safetensors.h: the engine's strict reader and its writer.
#include "checkpoint/safetensors.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>

#include "arrays.h"
#include "base/error.h"

namespace ida::python {
namespace {

using checkpoint::Metadata;
using Shape = std::vector<std::int64_t>;
// Bytes of the mapped file, which lives as long as one of them.
using FileBytes = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;
using ReadTensor = std::tuple<std::string, std::string, Shape, FileBytes>;  // name, dtype, shape, bytes
using WriteTensor = std::tuple<std::string, std::string, Shape, Input<std::uint8_t, 1>>;

std::pair<Metadata, std::vector<ReadTensor>> read(const std::string& path) {
  auto file = std::make_unique<checkpoint::SafetensorsFile>(path);
  const checkpoint::SafetensorsFile& content = *file;
  const nb::capsule owner(file.get(), [](void* data) noexcept { delete static_cast<checkpoint::SafetensorsFile*>(data); });
  file.release();
  std::vector<ReadTensor> tensors;
  for (const checkpoint::TensorSpan& tensor : content.tensors()) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(tensor.bytes.data());
    tensors.emplace_back(tensor.name, tensor.dtype_name(), tensor.shape, FileBytes(bytes, {tensor.bytes.size()}, owner));
  }
  return {content.metadata(), std::move(tensors)};
}

void write(const std::string& path, const std::vector<WriteTensor>& tensors, const Metadata& metadata) {
  std::vector<checkpoint::TensorSpan> spans;
  for (const auto& [name, dtype_name, shape, bytes] : tensors) {
    const auto dtype = checkpoint::find_stored_dtype(dtype_name);
    if (!dtype) fail_usage("{}: '{}' is no element type of a safetensors file", name, dtype_name);
    if (checkpoint::TensorPlan{name, *dtype, shape}.size_bytes() != bytes.size())
      fail_usage("{}: {} bytes do not fill its shape", name, bytes.size());
    spans.push_back({name, *dtype, shape, std::as_bytes(std::span(bytes.data(), bytes.size()))});
  }
  const nb::gil_scoped_release released;
  checkpoint::write_safetensors(path, spans, metadata);
}

}  // namespace

void bind_safetensors(nb::module_& module) {
  module.def("read_safetensors", read, nb::arg("path"));
  module.def("write_safetensors", write, nb::arg("path"), nb::arg("tensors"), nb::arg("metadata"));
}

}  // namespace ida::python

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace ida::checkpoint {
namespace {

using Json = nlohmann::json;

std::vector<TensorPlan> sorted(std::vector<TensorPlan> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorPlan& a, const TensorPlan& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  return tensors;
}

// Keys stand in the reference writer's order, which no sorted map gives: the text is put together by hand.
std::string header_json(const std::vector<TensorPlan>& order, const Metadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) json += "\"__metadata__\":" + Json(metadata).dump();
  std::uint64_t begin = 0;
  for (const TensorPlan& tensor : order) {
    const std::uint64_t end = begin + tensor.size_bytes();
    json +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", json.size() > 1 ? "," : "",
                    Json(tensor.name).dump(), stored_dtype_info(tensor.dtype).name, Json(tensor.shape).dump(), begin, end);
    begin = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

std::string prefix_u64_le(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

}  // namespace

std::uint64_t TensorPlan::size_bytes() const {
  std::uint64_t numel = 1;
  for (const std::int64_t dim : shape) {
    assert(dim >= 0);
    numel *= static_cast<std::uint64_t>(dim);
  }
  const std::uint64_t num_bits = numel * static_cast<std::uint64_t>(stored_dtype_info(dtype).bits);
  assert(num_bits % 8 == 0);
  return num_bits / 8;
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorPlan> tensors, const Metadata& metadata)
    : order_(sorted(std::move(tensors))), file_(path) {
  std::set<std::string_view> names;
  for (const TensorPlan& tensor : order_) {
    const bool is_new = names.insert(tensor.name).second;
    if (!is_new || tensor.name == "__metadata__" || tensor.name.find('\0') != std::string::npos) {
      fail_runtime("{}: '{}' cannot name a tensor here (twice, reserved, or with a NUL)", path,
                   printable_excerpt(tensor.name));
    }
  }
  const std::string header = header_json(order_, metadata);
  if (header.size() > kMaxHeaderBytes) {
    fail_runtime("{}: header of {} bytes, at most {} are allowed", path, header.size(), kMaxHeaderBytes);
  }
  file_.write(prefix_u64_le(header.size()) + header);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  assert(next_ < order_.size() && bytes.size() == order_[next_].size_bytes());
  file_.write(bytes);
  ++next_;
}

void SafetensorsWriter::finish() {
  assert(next_ == order_.size());
  file_.finish();
}

const Metadata& pytorch_metadata() {
  static const Metadata metadata = {{"format", "pt"}};
  return metadata;
}

WrittenFile write_safetensors(const std::string& path, const std::vector<TensorSpan>& tensors, const Metadata& metadata) {
  std::vector<TensorPlan> plans;
  std::map<std::string_view, std::span<const std::byte>> bytes_of;
  for (const TensorSpan& tensor : tensors) {
    plans.push_back({tensor.name, tensor.dtype, tensor.shape});
    bytes_of[tensor.name] = tensor.bytes;
  }
  SafetensorsWriter writer(path, std::move(plans), metadata);
  for (const TensorPlan& plan : writer.order()) writer.append(bytes_of.at(plan.name));
  writer.finish();
  return {writer.size_bytes(), writer.sha256()};
}

}  // namespace ida::checkpoint

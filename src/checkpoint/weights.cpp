#include "checkpoint/weights.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "formats/f16.h"

namespace ida::checkpoint {
namespace {

constexpr std::int64_t kGrainElems = 1 << 16;

template <typename Stored>
void widen(const TensorSpan& tensor, std::span<float> out) {
  assert(tensor.bytes.size() == out.size() * sizeof(Stored));
  parallel_for(static_cast<std::int64_t>(out.size()), kGrainElems, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Stored value;  // the file's bytes need not be aligned
      std::memcpy(&value, tensor.bytes.data() + static_cast<std::size_t>(i) * sizeof(Stored), sizeof(Stored));
      out[static_cast<std::size_t>(i)] = to_f32(value);
    }
  });
}

// Like bf16_from_f32, but a value whose low half is zero keeps all its bits, signalling NaN too.
bf16 narrow_exactly_if_possible(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0xFFFFu) == 0) return {static_cast<std::uint16_t>(bits >> 16)};
  return bf16_from_f32(value);
}

std::span<const std::byte> convert(std::span<const bf16> from, DType dtype, std::vector<std::byte>& buffer) {
  assert(dtype == DType::kF32);
  (void)dtype;
  buffer.resize(from.size() * sizeof(float));
  auto* out = reinterpret_cast<float*>(buffer.data());
  for (std::size_t i = 0; i < from.size(); ++i) out[i] = to_f32(from[i]);
  return buffer;
}

std::span<const std::byte> convert(std::span<const float> from, DType dtype, std::vector<std::byte>& buffer) {
  assert(dtype == DType::kBF16);
  (void)dtype;
  buffer.resize(from.size() * sizeof(bf16));
  auto* out = reinterpret_cast<bf16*>(buffer.data());
  for (std::size_t i = 0; i < from.size(); ++i) out[i] = narrow_exactly_if_possible(from[i]);
  return buffer;
}

DType view_dtype(const WeightsView& weights) { return weights.index() == 0 ? DType::kF32 : DType::kBF16; }

template <typename T>
std::span<const T> slice(std::span<const T> all, const model::ParamSpec& spec) {
  const auto offset = static_cast<std::size_t>(spec.offset_elems);
  const auto size = static_cast<std::size_t>(spec.numel());
  assert(offset + size <= all.size());
  return all.subspan(offset, size);
}

}  // namespace

std::vector<std::int64_t> stored_shape(const model::ParamSpec& spec) {
  return spec.is_vector ? std::vector{spec.cols} : std::vector{spec.rows, spec.cols};
}

std::vector<TensorSpan> tensor_spans(const model::ParamTable& table, const WeightsView& weights,
                                     const std::string& prefix) {
  std::vector<TensorSpan> spans;
  for (const model::ParamSpec& spec : table.params) {
    const auto bytes = std::visit([&](auto all) { return std::as_bytes(slice(all, spec)); }, weights);
    spans.push_back({prefix + spec.name, stored_dtype_of(view_dtype(weights)), stored_shape(spec), bytes});
  }
  return spans;
}

WrittenFile write_weights(const std::string& path, const model::ParamTable& table, const WeightsView& weights,
                          DType dtype) {
  assert(dtype == DType::kF32 || dtype == DType::kBF16);
  std::vector<TensorPlan> plans;
  std::map<std::string_view, const model::ParamSpec*> spec_of;
  for (const model::ParamSpec& spec : table.params) {
    plans.push_back({spec.name, stored_dtype_of(dtype), stored_shape(spec)});
    spec_of[spec.name] = &spec;
  }
  SafetensorsWriter writer(path, std::move(plans), pytorch_metadata());
  std::vector<std::byte> buffer;
  for (const TensorPlan& plan : writer.order()) {
    const model::ParamSpec& spec = *spec_of.at(plan.name);
    std::visit(
        [&](auto all) {
          const auto values = slice(all, spec);
          writer.append(view_dtype(weights) == dtype ? std::as_bytes(values) : convert(values, dtype, buffer));
        },
        weights);
  }
  writer.finish();
  return {writer.size_bytes(), writer.sha256()};
}

bool widen_to_f32(const TensorSpan& tensor, std::span<float> out) {
  switch (tensor.dtype) {
    case StoredDType::kF32: widen<float>(tensor, out); return true;
    case StoredDType::kBF16: widen<bf16>(tensor, out); return true;
    case StoredDType::kF16: widen<f16>(tensor, out); return true;
    default: return false;
  }
}

}  // namespace ida::checkpoint

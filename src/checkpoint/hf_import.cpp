#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/hf_model.h"
#include "model/rope_table.h"

namespace ida::checkpoint {
namespace {

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool is_float_dtype(StoredDType dtype) {
  return dtype == StoredDType::kF32 || dtype == StoredDType::kBF16 || dtype == StoredDType::kF16;
}

void check_parameter(const HfModel& source, const model::ParamSpec& spec) {
  const TensorSpan* tensor = source.find(spec.name);
  if (tensor == nullptr) fail_usage("{}: tensor '{}' is missing from the weights", source.dir(), spec.name);
  if (tensor->shape != stored_shape(spec)) {
    fail_usage("{}: tensor '{}' has shape {}, config.json needs {}", source.dir(), spec.name, shape_text(tensor->shape),
               shape_text(stored_shape(spec)));
  }
  if (!is_float_dtype(tensor->dtype)) {
    fail_usage("{}: tensor '{}' is {}, expected F32, BF16 or F16", source.dir(), spec.name, tensor->dtype_name());
  }
}

void check_tied_head(const HfModel& source, const TensorSpan& head) {
  const TensorSpan* embedding = source.find(kEmbedding);
  const bool same = embedding != nullptr && head.dtype == embedding->dtype && head.shape == embedding->shape &&
                    std::ranges::equal(head.bytes, embedding->bytes);
  if (!same) {
    fail_corrupt("{}: tie_word_embeddings is true, but '{}' differs from '{}'; untie the config or drop the tensor",
                 source.dir(), kHead, kEmbedding);
  }
}

// Buffers that transformers wrote before 4.32. They are derived from the config, so they are compared, not used.
bool is_inv_freq(std::string_view name) { return name.ends_with(".self_attn.rotary_emb.inv_freq"); }

void check_inv_freq(const HfModel& source, const TensorSpan& tensor) {
  const std::vector<float> expected = model::rope_inv_freq(source.config().rope, source.config().head_dim);
  std::vector<float> stored(expected.size());
  const bool readable = tensor.shape == std::vector{static_cast<std::int64_t>(expected.size())} &&
                        is_float_dtype(tensor.dtype) && widen_to_f32(tensor, stored);
  // One step of the stored format, and the distance between powers computed in f32 and in f64.
  const float tolerance = tensor.dtype == StoredDType::kF32   ? 4e-6f
                          : tensor.dtype == StoredDType::kF16 ? 0x1p-10f
                                                              : 0x1p-7f;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (readable && std::abs(stored[i] - expected[i]) <= tolerance * expected[i] + 0x1p-24f) continue;
    fail_usage("{}: tensor '{}' is not the rotary frequencies of config.json", source.dir(), tensor.name);
  }
}

}  // namespace

void check_hf_weights(const HfModel& source, const model::ParamTable& table) {
  for (const model::ParamSpec& spec : table.params) check_parameter(source, spec);
  std::map<std::string_view, bool> known;
  for (const model::ParamSpec& spec : table.params) known[spec.name] = true;
  for (const auto& [name, tensor] : source.tensors()) {
    if (known.contains(name)) continue;
    if (name == kHead && source.config().tie_word_embeddings) {
      check_tied_head(source, *tensor);
    } else if (is_inv_freq(name)) {
      check_inv_freq(source, *tensor);
    } else {
      fail_usage("{}: tensor '{}' is not part of this model ({} {}); it would be left unread", source.dir(),
                 printable_excerpt(name), tensor->dtype_name(), shape_text(tensor->shape));
    }
  }
}

void read_hf_weights(const HfModel& source, const model::ParamTable& table, std::span<float> master) {
  check_hf_weights(source, table);
  for (const model::ParamSpec& spec : table.params) {
    const auto offset = static_cast<std::size_t>(spec.offset_elems);
    widen_to_f32(*source.find(spec.name), master.subspan(offset, static_cast<std::size_t>(spec.numel())));
  }
}

}  // namespace ida::checkpoint

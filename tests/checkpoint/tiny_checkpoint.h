// A small run state for tests of native checkpoints: deterministic tensors of every kind a checkpoint holds.
#pragma once
#include <map>
#include <random>
#include <string>

#include "base/file.h"
#include "checkpoint/store.h"
#include "model/hf_config.h"

namespace ida::checkpoint {

class TinyState {
 public:
  explicit TinyState(std::int64_t step, std::uint64_t seed = 1)
      : step_(step), random_(seed * 1000 + static_cast<std::uint64_t>(step)) {
    config_ = model::parse_hf_config(R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 6,
        "num_hidden_layers": 1, "num_attention_heads": 2, "tie_word_embeddings": true, "dtype": "bfloat16"})",
                                     "tiny");
    table_ = model::build_param_table(config_);
    weights_.resize(size());
    master_.resize(size());
    exp_avg_.resize(size());
    exp_avg_sq_.resize(size());
    for (std::size_t i = 0; i < size(); ++i) {
      master_[i] = uniform();
      weights_[i] = bf16_from_f32(master_[i]);
      exp_avg_[i] = bf16_from_f32(uniform());
      exp_avg_sq_[i] = uniform();
    }
  }

  CheckpointContents contents() const {
    CheckpointContents c;
    c.step = step_;
    c.weights = tensor_spans(table_, std::span<const bf16>(weights_));
    c.optim = tensor_spans(table_, std::span<const float>(master_), "master.");
    const auto append = [&c](const std::vector<TensorSpan>& more) {
      c.optim.insert(c.optim.end(), more.begin(), more.end());
    };
    append(tensor_spans(table_, std::span<const bf16>(exp_avg_), "exp_avg."));
    append(tensor_spans(table_, std::span<const float>(exp_avg_sq_), "exp_avg_sq."));
    c.config_json = model::write_hf_config(config_);
    c.state_json = R"({"rng": 18446744073709551615, "cursor": {"document": 7}})";
    c.tokenizer_files = {{"tokenizer.json", "{}"}};
    c.lineage = {.run_id = "run-a", .parent = "", .config_hash = "c0", .data_fingerprint = "d0", .build_id = "b0"};
    return c;
  }

  std::size_t size() const { return static_cast<std::size_t>(table_.total_elems); }
  const model::ParamTable& table() const { return table_; }
  std::vector<bf16>& weights() { return weights_; }
  std::vector<float>& master() { return master_; }
  std::vector<bf16>& exp_avg() { return exp_avg_; }

 private:
  float uniform() { return static_cast<float>(random_() >> 40) * 0x1p-24f; }

  std::int64_t step_;
  std::mt19937_64 random_;
  model::ModelConfig config_;
  model::ParamTable table_;
  std::vector<bf16> weights_;
  std::vector<float> master_;
  std::vector<bf16> exp_avg_;
  std::vector<float> exp_avg_sq_;
};

// The tensors of a stored checkpoint equal those of the contents, bit for bit.
inline bool holds(const Checkpoint& stored, const CheckpointContents& expected) {
  const auto same = [](const SafetensorsFile& file, const std::vector<TensorSpan>& tensors) {
    if (file.tensors().size() != tensors.size()) return false;
    for (const TensorSpan& tensor : tensors) {
      const TensorSpan* found = file.find(tensor.name);
      if (found == nullptr || found->dtype != tensor.dtype || found->shape != tensor.shape) return false;
      if (!std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end())) return false;
    }
    return true;
  };
  return stored.manifest().step == expected.step && same(stored.weights(), expected.weights) && stored.optim() != nullptr &&
         same(*stored.optim(), expected.optim);
}

}  // namespace ida::checkpoint

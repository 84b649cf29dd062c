// The parameters of a model as data: Hugging Face names, shapes, initialisation, decay. Order = order in memory;
// members of a fused group (q|k|v, gate|up) follow each other without padding, so that one GEMM reads them as one matrix.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace ida::model {

enum class InitKind : std::uint8_t { kNormal, kOnes, kZeros };

struct ParamSpec {
  std::string name;       // "model.layers.0.self_attn.q_proj.weight"
  std::int64_t rows = 1;  // 1 for vectors
  std::int64_t cols = 0;
  bool is_vector = false;  // HF shape [cols] instead of [rows, cols]
  InitKind init = InitKind::kNormal;
  double init_std = 0.02;
  std::int64_t offset_elems = 0;  // in the flat parameter buffer; groups start on 64-element boundaries
  std::int64_t numel() const { return rows * cols; }
  bool is_matrix() const { return !is_vector; }
};

struct ParamTable {
  std::vector<ParamSpec> params;
  std::int64_t total_elems = 0;     // of the flat buffer, padding included
  std::int64_t num_parameters = 0;  // padding excluded, a tied matrix once
  // Index of a name, or -1.
  std::int64_t find(const std::string& name) const;
};

ParamTable build_param_table(const ModelConfig& config);

}  // namespace ida::model

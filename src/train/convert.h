// Hugging Face folders in and out, and the proof that what was written is what was meant.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "runtime/device.h"

namespace ida::train {

struct ConvertReport {
  std::string source;
  std::int64_t num_tensors = 0;
  std::int64_t num_parameters = 0;
  bool has_tokenizer = false;
};

// Copies a Hugging Face folder after everything in it was checked: keys of config.json, names, shapes, dtypes and
// finite values of every tensor, the tokenizer. Tensor bytes stay as they are. Errors: kUsage for what is not
// implemented, kCorrupt for damage, each naming the key, tensor or file.
ConvertReport import_model(const std::string& source_dir, const std::string& out_dir);

// Writes the model of a run, a checkpoint or a model folder in `format`; only "hf" exists, any other is refused (kUsage).
// What was written is read again and compared byte by byte.
ConvertReport export_model(const std::string& source_dir, const std::string& out_dir, const std::string& format);

struct ExportReport {
  std::vector<std::string> problems;  // empty: all is well
  bool has_manifest = false;          // hashes were compared with manifest.json
  std::int64_t num_tensors = 0;
  std::int64_t num_values = 0;
  std::int64_t num_logits = 0;  // of a forward pass over a few tokens, all finite
  double max_difference = 0.0;  // to the source's values, rounded to the written dtype; 0 without a source
};

// Reloads a model folder: hashes where a manifest exists, config, names and shapes, finite values, tokenizer, a forward
// pass; and where `source_dir` is not empty, every value against the source's. Never throws for what it finds in `dir`.
ExportReport verify_export(const std::string& dir, const std::string& source_dir, runtime::Device& device,
                           const ops::Backend& backend);

}  // namespace ida::train

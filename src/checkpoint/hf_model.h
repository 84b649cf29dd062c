// Hugging Face model folders: config.json, model.safetensors or its shards, tokenizer files.
//
// Import checks every name, shape and dtype against the parameter table before a value is read: a missing, unread or
// misshaped tensor is an error naming it. Shard names come from a file that others wrote: only plain names of regular
// files inside the folder are opened.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "model/model_config.h"
#include "model/param_spec.h"

namespace ida::checkpoint {

// An opened folder. Tensors are views into mapped files and live as long as the object.
class HfModel {
 public:
  // Reads config.json and the headers of the weight files. Refused: no weights, both a single file and an index, an
  // index that disagrees with its shards or leaves the folder.
  explicit HfModel(const std::string& dir);

  const std::string& dir() const { return dir_; }
  const model::ModelConfig& config() const { return config_; }
  const std::map<std::string_view, const TensorSpan*>& tensors() const { return tensors_; }
  const TensorSpan* find(std::string_view name) const;
  // The dtype that all tensors share, if they do.
  std::optional<StoredDType> common_dtype() const;

 private:
  std::string dir_;
  model::ModelConfig config_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string_view, const TensorSpan*> tensors_;
};

// HfModel, after every hash of manifest.json was verified where the folder has one.
HfModel open_model(const std::string& dir);

// Every parameter of the table is there with its shape in F32, BF16 or F16, and no other tensor is, except: a copy of
// the embedding under lm_head.weight in a tied model (bytes must be equal), and rotary inv_freq buffers of old files
// (values must be the config's). Errors: kUsage for names and shapes, kCorrupt for copies that differ.
void check_hf_weights(const HfModel& source, const model::ParamTable& table);
// check_hf_weights, then fills `master` [table.total_elems] exactly; padding is left as it is.
void read_hf_weights(const HfModel& source, const model::ParamTable& table, std::span<float> master);

struct HfExport {
  const model::ModelConfig& config;
  const model::ParamTable& table;
  WeightsView weights;
  DType dtype = DType::kBF16;      // of the written tensors: kF32 or kBF16
  std::string tokenizer_dir = {};  // folder whose tokenizer files are copied; "" for none
};

// Writes a folder that transformers loads. Weight files of an earlier export there are removed; a folder that holds
// weights in another container (pytorch_model.bin, ...) is refused, because a loader could pick those.
void write_hf_model(const std::string& dir, const HfExport& model);
// The same folder with the source's own tensor bytes and dtypes; check_hf_weights first.
void copy_hf_model(const HfModel& source, const model::ParamTable& table, const std::string& dir);

struct SideFile {
  std::string name;
  std::string bytes;
};
// The files that belong to a tokenizer or to generation, byte for byte: tokenizer.json, tokenizer_config.json,
// chat_template.jinja, special_tokens_map.json, generation_config.json, vocabulary files. Missing ones are skipped.
std::vector<SideFile> read_tokenizer_files(const std::string& dir);

// True for a name that can only mean an entry of its folder: no separator, no "." or "..", no control byte.
bool is_plain_file_name(std::string_view name);

}  // namespace ida::checkpoint

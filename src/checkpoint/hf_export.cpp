#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/hf_model.h"
#include "model/hf_config.h"

namespace ida::checkpoint {
namespace {

// "model-00002-of-00005.safetensors"
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return name.size() == kPattern.size() && std::equal(name.begin(), name.end(), kPattern.begin(), [](char c, char p) {
           return p == '#' ? c >= '0' && c <= '9' : c == p;
         });
}

bool is_other_container(std::string_view name) {
  return (name.starts_with("pytorch_model") && name.ends_with(".bin")) || name == "pytorch_model.bin.index.json" ||
         name == "tf_model.h5" || name == "flax_model.msgpack" || name.starts_with("consolidated.");
}

void refuse_other_containers(const std::string& dir) {
  for (const std::string& name : list_directory(dir)) {
    if (is_other_container(name)) {
      fail_usage("{}: holds {}, which a loader could take for the new weights; remove it or write elsewhere", dir, name);
    }
  }
}

// Runs `write_tensors` for model.safetensors, then makes the rest of the folder agree with it.
template <typename WriteTensors>
void write_folder(const std::string& dir, const model::ModelConfig& config, const std::string& tokenizer_dir,
                  WriteTensors&& write_tensors) {
  const std::string config_text = model::write_hf_config(config);
  // Read before anything is written: the folders may be the same one.
  const std::vector<SideFile> side_files =
      tokenizer_dir.empty() ? std::vector<SideFile>{} : read_tokenizer_files(tokenizer_dir);
  make_directories(dir);
  refuse_other_containers(dir);
  write_tensors(dir + "/model.safetensors");
  remove_file(dir + "/model.safetensors.index.json");
  for (const std::string& name : list_directory(dir)) {
    if (is_shard_name(name)) remove_file(dir + "/" + name);
  }
  if (!tokenizer_dir.empty()) {
    for (const SideFile& old : read_tokenizer_files(dir)) {
      const auto same_name = [&](const SideFile& file) { return file.name == old.name; };
      if (std::none_of(side_files.begin(), side_files.end(), same_name)) remove_file(dir + "/" + old.name);
    }
  }
  for (const SideFile& file : side_files) write_file_atomic(dir + "/" + file.name, file.bytes);
  write_file_atomic(dir + "/config.json", config_text);
}

}  // namespace

void write_hf_model(const std::string& dir, const HfExport& model) {
  model::ModelConfig config = model.config;
  config.dtype = model.dtype;
  write_folder(dir, config, model.tokenizer_dir,
               [&](const std::string& path) { write_weights(path, model.table, model.weights, model.dtype); });
}

void copy_hf_model(const HfModel& source, const model::ParamTable& table, const std::string& dir) {
  check_hf_weights(source, table);
  std::vector<TensorSpan> tensors;
  for (const model::ParamSpec& spec : table.params) tensors.push_back(*source.find(spec.name));
  write_folder(dir, source.config(), source.dir(),
               [&](const std::string& path) { write_safetensors(path, tensors, pytorch_metadata()); });
}

}  // namespace ida::checkpoint

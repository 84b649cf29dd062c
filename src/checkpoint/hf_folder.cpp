#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/hf_model.h"
#include "model/hf_config.h"

namespace ida::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{256} << 20;

constexpr auto kTokenizerFiles = std::to_array<std::string_view>({
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
});

// A shard may be a symbolic link only inside its folder, or into the blobs of the hub cache that the folder belongs to.
void check_shard_location(const std::string& dir, const std::string& name) {
  std::error_code code;
  const fs::path target = fs::canonical(fs::path(dir) / name, code);
  const fs::path folder = code ? fs::path() : fs::canonical(dir, code);
  if (code) fail_corrupt("{}: shard '{}' of the index is missing: {}", dir, name, code.message());
  const bool in_cache = folder.parent_path().filename() == "snapshots" &&
                        target.parent_path() == folder.parent_path().parent_path() / "blobs";
  if (target.parent_path() != folder && !in_cache) {
    fail_corrupt("{}: shard '{}' of the index is a link out of the folder, to {}", dir, name, target.string());
  }
  if (!is_regular_file(target.string())) fail_corrupt("{}: shard '{}' of the index is not a regular file", dir, name);
}

// weight_map: tensor name -> shard name.
std::map<std::string, std::string> read_index(const std::string& dir, const std::string& path) {
  const Json index = parse_json(read_file(path, kMaxIndexBytes), path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    fail_corrupt("{}: expected an object with the key weight_map", path);
  }
  std::map<std::string, std::string> weight_map;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) fail_corrupt("{}: weight_map of '{}' is not a file name", path, printable_excerpt(tensor));
    const std::string name = shard.get<std::string>();
    if (!is_plain_file_name(name) || !name.ends_with(".safetensors")) {
      fail_corrupt("{}: weight_map of '{}' is '{}', expected the plain name of a .safetensors file", path,
                   printable_excerpt(tensor), printable_excerpt(name));
    }
    if (shards.insert(name).second) check_shard_location(dir, name);
    weight_map[tensor] = name;
  }
  return weight_map;
}

std::vector<SafetensorsFile> open_shards(const std::string& dir, const std::string& index_path) {
  const std::map<std::string, std::string> weight_map = read_index(dir, index_path);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : weight_map) names.insert(shard);
  std::vector<SafetensorsFile> files;
  std::size_t num_tensors = 0;
  for (const std::string& name : names) {
    files.emplace_back(dir + "/" + name);
    for (const TensorSpan& tensor : files.back().tensors()) {
      const auto entry = weight_map.find(tensor.name);
      if (entry == weight_map.end() || entry->second != name) {
        fail_corrupt("{}: tensor '{}' of shard {} is not listed there by the index", index_path,
                     printable_excerpt(tensor.name), name);
      }
      ++num_tensors;
    }
  }
  if (num_tensors == weight_map.size()) return files;
  for (const auto& [tensor, shard] : weight_map) {
    const auto in_file = [&name = tensor](const SafetensorsFile& file) { return file.find(name) != nullptr; };
    if (std::none_of(files.begin(), files.end(), in_file)) {
      fail_corrupt("{}: tensor '{}' is not in its shard {}", index_path, printable_excerpt(tensor), shard);
    }
  }
  return files;
}

std::vector<SafetensorsFile> open_weights(const std::string& dir) {
  const std::string single = dir + "/model.safetensors";
  const std::string index = dir + "/model.safetensors.index.json";
  const bool has_single = path_exists(single);
  const bool has_index = path_exists(index);
  if (has_single && has_index) {
    fail_usage("{}: holds both model.safetensors and model.safetensors.index.json; remove the stale one", dir);
  }
  if (has_index) return open_shards(dir, index);
  if (!has_single) {
    fail_usage("{}: no model.safetensors and no model.safetensors.index.json (other containers are not read)", dir);
  }
  std::vector<SafetensorsFile> files;
  files.emplace_back(single);
  return files;
}

}  // namespace

bool is_plain_file_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '/' || c == '\\' || byte < 0x20 || byte == 0x7F;
  });
}

HfModel::HfModel(const std::string& dir) : dir_(dir) {
  if (!is_directory(dir)) fail_usage("{}: no such model folder", dir);
  const std::string config_path = dir + "/config.json";
  if (!path_exists(config_path)) fail_usage("{}: no config.json", dir);
  config_ = model::parse_hf_config(read_file(config_path, kMaxConfigBytes), config_path);
  files_ = open_weights(dir);
  for (const SafetensorsFile& file : files_) {
    for (const TensorSpan& tensor : file.tensors()) tensors_[tensor.name] = &tensor;
  }
}

const TensorSpan* HfModel::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::optional<StoredDType> HfModel::common_dtype() const {
  std::optional<StoredDType> common;
  for (const auto& [name, tensor] : tensors_) {
    if (common && *common != tensor->dtype) return std::nullopt;
    common = tensor->dtype;
  }
  return common;
}

std::vector<SideFile> read_tokenizer_files(const std::string& dir) {
  std::vector<SideFile> files;
  for (const std::string_view name : kTokenizerFiles) {
    const std::string path = dir + "/" + std::string(name);
    if (path_exists(path)) files.push_back({std::string(name), read_file(path)});
  }
  return files;
}

}  // namespace ida::checkpoint

#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "checkpoint/hf_model.h"
#include "checkpoint/weights.h"

namespace ida::checkpoint {
namespace {

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{256} << 20;

// Where the damage is, for a safetensors file whose hash does not match.
std::string damaged_part(const MappedFile& file, const ManifestFile& expected) {
  if (expected.tensors.empty()) return "";
  try {
    const SafetensorsContent content = parse_safetensors(file.bytes(), file.path());
    for (const TensorSpan& tensor : content.tensors) {
      const auto known = expected.tensors.find(tensor.name);
      if (known == expected.tensors.end() || known->second != tensor_checksum(tensor.bytes)) {
        return fmt::format(", tensor '{}' was changed", printable_excerpt(tensor.name));
      }
    }
  } catch (const Error&) {
  }
  return ", its header was changed";
}

// Pages are given back as soon as they are hashed: checking a large checkpoint takes no memory from the run.
std::string sha256_of(const MappedFile& file) {
  constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
  Sha256 hash;
  for (std::size_t at = 0; at < file.bytes().size(); at += kChunkBytes) {
    const auto chunk = file.bytes().subspan(at, std::min(kChunkBytes, file.bytes().size() - at));
    hash.update(chunk);
    file.drop_pages(chunk);
  }
  return hash.hex();
}

MappedFile open_verified(const std::string& dir, const std::string& name, const ManifestFile& expected) {
  const std::string path = dir + "/" + name;
  if (!path_exists(path)) fail_corrupt("{}: missing, the manifest lists it", path);
  MappedFile file(path);
  if (file.bytes().size() != expected.size_bytes) {
    fail_corrupt("{}: {} bytes, the manifest says {}", path, file.bytes().size(), expected.size_bytes);
  }
  if (sha256_of(file) != expected.sha256) {
    fail_corrupt("{}: SHA-256 does not match the manifest{}", path, damaged_part(file, expected));
  }
  return file;
}

template <typename T>
bool all_finite(const TensorSpan& tensor) {
  for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
    if ((value & 0x7F80u << (8 * (sizeof(T) - 2))) == 0x7F80u << (8 * (sizeof(T) - 2))) return false;
  }
  return true;
}

// F32 and BF16 hold their exponent in the same 8 bits below the sign; other dtypes carry no float of ours.
bool is_finite(const TensorSpan& tensor) {
  if (tensor.dtype == StoredDType::kF32) return all_finite<std::uint32_t>(tensor);
  if (tensor.dtype == StoredDType::kBF16) return all_finite<std::uint16_t>(tensor);
  return true;
}

void check_values(const SafetensorsFile& file, VerifyReport& report) {
  for (const TensorSpan& tensor : file.tensors()) {
    ++report.num_tensors;
    std::int64_t numel = 1;
    for (const std::int64_t dim : tensor.shape) numel *= dim;
    report.num_values += numel;
    if (!is_finite(tensor)) {
      report.problems.push_back(fmt::format("{}: tensor '{}' holds NaN or infinity", file.path(), tensor.name));
    }
  }
}

}  // namespace

Manifest read_manifest(const std::string& dir) {
  const std::string path = dir + "/" + kManifestName;
  if (!path_exists(path)) fail_corrupt("{}: missing; the checkpoint was not finished", path);
  Manifest manifest = parse_manifest(read_file(path, kMaxManifestBytes), path);
  for (const char* name : {kWeightsName, kStateName, "config.json"}) {
    if (!manifest.files.contains(name)) fail_corrupt("{}: lists no {}", path, name);
  }
  return manifest;
}

Checkpoint::Checkpoint(const std::string& dir) : dir_(dir), manifest_(read_manifest(dir)) {
  for (const auto& [name, expected] : manifest_.files) {
    MappedFile file = open_verified(dir, name, expected);
    if (name == kWeightsName) {
      weights_.emplace(std::move(file));
    } else if (name == kOptimName) {
      optim_.emplace(std::move(file));
    } else if (name == kStateName) {
      state_json_.assign(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    }
  }
}

void for_each_param(const SafetensorsFile& file, const model::ParamTable& table, const std::string& prefix, DType dtype,
                    const PutBytes& put) {
  for (const model::ParamSpec& spec : table.params) {
    const TensorSpan& tensor = file.require(prefix + spec.name);
    if (tensor.dtype != stored_dtype_of(dtype) || tensor.shape != stored_shape(spec)) {
      fail_corrupt("{}: tensor '{}' is {} with {} bytes, expected {} with {} bytes", file.path(), tensor.name,
                   tensor.dtype_name(), tensor.bytes.size(), dtype_name(dtype), spec.numel() * dtype_size_bytes(dtype));
    }
    put(spec.offset_elems * dtype_size_bytes(dtype), tensor.bytes);
    file.drop_pages(tensor);
  }
}

void read_flat(const SafetensorsFile& file, const model::ParamTable& table, const std::string& prefix, DType dtype,
               std::span<std::byte> flat) {
  for_each_param(file, table, prefix, dtype, [&](std::int64_t offset_bytes, std::span<const std::byte> bytes) {
    std::memcpy(flat.subspan(static_cast<std::size_t>(offset_bytes), bytes.size()).data(), bytes.data(), bytes.size());
  });
}

VerifyReport verify_checkpoint(const std::string& dir) {
  VerifyReport report;
  try {
    const Checkpoint checkpoint(dir);
    report.manifest = checkpoint.manifest();
    check_values(checkpoint.weights(), report);
    if (checkpoint.optim() != nullptr) check_values(*checkpoint.optim(), report);
  } catch (const Error& error) {
    report.problems.push_back(error.what());
  }
  return report;
}

std::string step_name(std::int64_t step) { return fmt::format("step-{}", step); }

std::optional<std::int64_t> step_of_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = -1;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (code != std::errc() || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

std::optional<Checkpoint> open_newest_complete(const std::string& checkpoints_dir, std::vector<std::string>& report) {
  if (!is_directory(checkpoints_dir)) return std::nullopt;
  std::vector<std::int64_t> steps;
  for (const std::string& name : list_directory(checkpoints_dir)) {
    if (const auto step = step_of_name(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  for (const std::int64_t step : steps) {
    const std::string dir = checkpoints_dir + "/" + step_name(step);
    try {
      Checkpoint checkpoint(dir);
      if (checkpoint.manifest().step == step) return checkpoint;
      report.push_back(fmt::format("passed over {}: its manifest says step {}", dir, checkpoint.manifest().step));
    } catch (const Error& error) {
      report.push_back(fmt::format("passed over {}: {}", dir, error.what()));
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_newest_complete(const std::string& checkpoints_dir, std::vector<std::string>& report) {
  const auto newest = open_newest_complete(checkpoints_dir, report);
  return newest ? std::optional(newest->dir()) : std::nullopt;
}

void record_scores(const std::string& dir, const std::map<std::string, double>& scores) {
  Manifest manifest = read_manifest(dir);
  for (const auto& [name, value] : scores) manifest.scores[name] = value;
  write_file_atomic(dir + "/" + kManifestName, write_manifest(manifest));
}

HfModel open_model(const std::string& dir) {
  if (path_exists(dir + "/" + kManifestName)) Checkpoint{dir};
  return HfModel(dir);
}

}  // namespace ida::checkpoint

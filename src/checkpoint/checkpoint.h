// Reading native checkpoints: a folder step-N with model.safetensors, config.json, tokenizer files, optim.safetensors,
// state.json and manifest.json. Nothing is used before its hash was verified. Order is by the step number inside the
// manifest, never by a clock.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "model/param_spec.h"

namespace ida::checkpoint {

constexpr const char* kManifestName = "manifest.json";
constexpr const char* kWeightsName = "model.safetensors";
constexpr const char* kOptimName = "optim.safetensors";
constexpr const char* kStateName = "state.json";

// A verified checkpoint, its tensors mapped.
class Checkpoint {
 public:
  // kCorrupt naming the file, and the tensor where one is damaged.
  explicit Checkpoint(const std::string& dir);

  const std::string& dir() const { return dir_; }
  const Manifest& manifest() const { return manifest_; }
  const SafetensorsFile& weights() const { return *weights_; }
  const SafetensorsFile* optim() const { return optim_ ? &*optim_ : nullptr; }  // nullptr when there is none
  // The object that the writer was given as state, with "step" and "format_version".
  const std::string& state_json() const { return state_json_; }

 private:
  std::string dir_;
  Manifest manifest_;
  std::optional<SafetensorsFile> weights_;
  std::optional<SafetensorsFile> optim_;
  std::string state_json_;
};

inline Checkpoint open_checkpoint(const std::string& dir) { return Checkpoint(dir); }

// The manifest of a folder, of whose other files nothing is read. kCorrupt as Checkpoint.
Manifest read_manifest(const std::string& dir);

// Hands out prefix + name of every parameter with its place in a flat buffer laid out by the table. The stored dtype must
// be `dtype`: optimizer state is never converted on the way. Missing, misshaped or other dtype: kCorrupt naming the tensor.
using PutBytes = std::function<void(std::int64_t offset_bytes, std::span<const std::byte> bytes)>;
void for_each_param(const SafetensorsFile& file, const model::ParamTable& table, const std::string& prefix, DType dtype,
                    const PutBytes& put);
// Copies them into such a buffer.
void read_flat(const SafetensorsFile& file, const model::ParamTable& table, const std::string& prefix, DType dtype,
               std::span<std::byte> flat);

struct VerifyReport {
  Manifest manifest;
  std::vector<std::string> problems;  // empty: everything is as it was written, and finite
  std::int64_t num_tensors = 0;
  std::int64_t num_values = 0;
};
// All hashes, then whether every float value is finite. Never throws for what it finds in the folder.
VerifyReport verify_checkpoint(const std::string& dir);

// The step of a folder name "step-N" (decimal, no padding), else nullopt.
std::optional<std::int64_t> step_of_name(std::string_view name);
std::string step_name(std::int64_t step);

// The newest folder step-N under `checkpoints_dir` whose manifest and hashes hold; nullopt when there is none. `report`
// gets one line per newer folder that was passed over, with the reason.
std::optional<Checkpoint> open_newest_complete(const std::string& checkpoints_dir, std::vector<std::string>& report);
// Its path.
std::optional<std::string> find_newest_complete(const std::string& checkpoints_dir, std::vector<std::string>& report);

// Adds evaluation results to a checkpoint's manifest (atomically); its id stays.
void record_scores(const std::string& dir, const std::map<std::string, double>& scores);

}  // namespace ida::checkpoint

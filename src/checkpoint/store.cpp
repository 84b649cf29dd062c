#include "checkpoint/store.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace ida::checkpoint {
namespace {

using Json = nlohmann::json;

// Names of folders that are not checkpoints yet or no longer.
constexpr std::string_view kSaving = ".saving";
constexpr std::string_view kReplaced = ".replaced";
constexpr std::string_view kDeleted = ".deleted";

std::string hidden_name(std::int64_t step, std::string_view suffix) {
  return fmt::format(".{}{}", step_name(step), suffix);
}

// The step of ".step-N<suffix>".
std::optional<std::int64_t> step_of_hidden_name(std::string_view name, std::string_view suffix) {
  if (!name.starts_with('.') || !name.ends_with(suffix)) return std::nullopt;
  return step_of_name(name.substr(1, name.size() - 1 - suffix.size()));
}

ManifestFile write_tensors(const std::string& path, const std::vector<TensorSpan>& tensors) {
  ManifestFile entry;
  for (const TensorSpan& tensor : tensors) entry.tensors[tensor.name] = tensor_checksum(tensor.bytes);
  const WrittenFile written = write_safetensors(path, tensors, pytorch_metadata());
  entry.size_bytes = written.size_bytes;
  entry.sha256 = written.sha256;
  return entry;
}

ManifestFile write_bytes(const std::string& path, std::string_view bytes) {
  write_file_atomic(path, bytes);
  return {.size_bytes = bytes.size(), .sha256 = sha256_hex(bytes)};
}

std::string state_text(const CheckpointContents& contents) {
  Json state = parse_json(contents.state_json, "state of the run");
  state["format_version"] = kCheckpointFormatVersion;
  state["step"] = contents.step;
  return state.dump(2) + "\n";
}

// Returns the id.
std::string write_files(const std::string& dir, const CheckpointContents& contents, const std::string& parent) {
  Manifest manifest;
  manifest.step = contents.step;
  manifest.lineage = contents.lineage;
  manifest.lineage.parent = parent;
  manifest.scores = contents.scores;
  manifest.files[kWeightsName] = write_tensors(dir + "/" + kWeightsName, contents.weights);
  if (!contents.optim.empty()) manifest.files[kOptimName] = write_tensors(dir + "/" + kOptimName, contents.optim);
  for (const SideFile& file : contents.tokenizer_files) {
    manifest.files[file.name] = write_bytes(dir + "/" + file.name, file.bytes);
  }
  manifest.files["config.json"] = write_bytes(dir + "/config.json", contents.config_json);
  manifest.files[kStateName] = write_bytes(dir + "/" + kStateName, state_text(contents));
  write_file_atomic(dir + "/" + kManifestName, write_manifest(manifest));
  return manifest.id();
}

void check_free_space(const std::string& dir, std::uint64_t needed_bytes) {
  const std::uint64_t free_bytes = free_space_bytes(dir);
  if (free_bytes >= needed_bytes) return;
  fail_runtime("{}: the checkpoint needs {} bytes, {} are free; make room or lower train.keep_last", dir, needed_bytes,
               free_bytes);
}

}  // namespace

std::uint64_t CheckpointContents::size_bytes() const {
  constexpr std::uint64_t kHeaderBytes = 512;  // of a tensor, in a header and in the manifest
  std::uint64_t size = config_json.size() + state_json.size() + (std::uint64_t{1} << 20);
  for (const std::vector<TensorSpan>* tensors : {&weights, &optim}) {
    for (const TensorSpan& tensor : *tensors) size += tensor.bytes.size() + kHeaderBytes;
  }
  for (const SideFile& file : tokenizer_files) size += file.bytes.size();
  return size;
}

CheckpointStore::CheckpointStore(std::string dir) : dir_(std::move(dir)) {
  make_directories(dir_);
  clean_up();
}

// Removes what killed or failed saves left, and finishes or undoes an interrupted replacement.
void CheckpointStore::clean_up() {
  for (const std::string& name : list_directory(dir_)) {
    const std::string path = dir_ + "/" + name;
    if (step_of_hidden_name(name, kSaving) || step_of_hidden_name(name, kDeleted) || name.starts_with(".latest.tmp-")) {
      remove_tree(path);
    } else if (const auto step = step_of_hidden_name(name, kReplaced)) {
      const std::string current = dir_ + "/" + step_name(*step);
      if (path_exists(current)) {
        remove_tree(path);
      } else {
        rename_path(path, current);
        sync_directory(dir_);
      }
    }
  }
}

std::string CheckpointStore::save(const CheckpointContents& contents) {
  check_free_space(dir_, contents.size_bytes());
  clean_up();
  const std::string temp_dir = dir_ + "/" + hidden_name(contents.step, kSaving);
  try {
    make_directories(temp_dir);
    const std::string id = write_files(temp_dir, contents, parent_);
    publish(temp_dir, contents.step);
    parent_ = id;
  } catch (...) {
    try {
      clean_up();
    } catch (const Error&) {  // the first error is the one to report; the next save or start cleans up
    }
    throw;
  }
  return dir_ + "/" + step_name(contents.step);
}

void CheckpointStore::publish(const std::string& temp_dir, std::int64_t step) {
  const std::string path = dir_ + "/" + step_name(step);
  const std::string replaced = dir_ + "/" + hidden_name(step, kReplaced);
  if (path_exists(path)) {
    remove_tree(replaced);
    rename_path(path, replaced);
  }
  rename_path(temp_dir, path);
  sync_directory(dir_);
  replace_symlink(step_name(step), dir_ + "/latest");
  remove_tree(replaced);
}

std::vector<CheckpointStore::Saved> CheckpointStore::saved_of(const std::string& run_id) const {
  std::vector<Saved> saved;
  for (const std::string& name : list_directory(dir_)) {
    const auto step = step_of_name(name);
    const std::string manifest_path = dir_ + "/" + name + "/" + kManifestName;
    if (!step || !path_exists(manifest_path)) continue;
    try {
      const Manifest manifest = parse_manifest(read_file(manifest_path), manifest_path);
      if (manifest.step != *step || manifest.lineage.run_id != run_id) continue;
      const auto score = manifest.scores.find(kBestScore);
      saved.push_back({*step, score == manifest.scores.end() ? std::nullopt : std::optional(score->second)});
    } catch (const Error&) {  // not known to be ours: not ours to delete
    }
  }
  std::sort(saved.begin(), saved.end(), [](const Saved& a, const Saved& b) { return a.step > b.step; });
  return saved;
}

void CheckpointStore::apply_retention(const Retention& rule, std::int64_t saved_step, const std::string& run_id) {
  if (rule.keep_last <= 0) return;
  std::vector<Saved> saved = saved_of(run_id);
  std::set<std::int64_t> kept = {saved_step};
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (static_cast<std::int64_t>(i) < rule.keep_last) kept.insert(saved[i].step);
    if (rule.keep_every > 0 && saved[i].step % rule.keep_every == 0) kept.insert(saved[i].step);
  }
  // Of equal scores the newer one is better, as it comes first.
  std::vector<Saved> scored;
  std::copy_if(saved.begin(), saved.end(), std::back_inserter(scored), [](const Saved& s) { return s.score.has_value(); });
  std::stable_sort(scored.begin(), scored.end(), [](const Saved& a, const Saved& b) { return *a.score < *b.score; });
  for (std::size_t i = 0; i < scored.size() && static_cast<std::int64_t>(i) < rule.keep_best; ++i)
    kept.insert(scored[i].step);
  for (const Saved& old : saved) {
    if (kept.contains(old.step)) continue;
    const std::string deleted = dir_ + "/" + hidden_name(old.step, kDeleted);
    remove_tree(deleted);
    rename_path(dir_ + "/" + step_name(old.step), deleted);
    sync_directory(dir_);  // before the files go: a folder that is named step-N is whole, also after a power cut
    remove_tree(deleted);
  }
}

}  // namespace ida::checkpoint

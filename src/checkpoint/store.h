// Writing native checkpoints of one run, so that a kill, a full disk or a power cut at any moment leaves the last good
// one in place: files are written and synced in a temporary folder, the manifest last, then the folder is renamed, and
// `latest` (a symbolic link) moves after that.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_model.h"

namespace ida::checkpoint {

// What one checkpoint holds. Tensors are views: their memory must not change until the save is done.
struct CheckpointContents {
  std::int64_t step = 0;
  std::vector<TensorSpan> weights;  // HF names, as the forward uses them
  std::vector<TensorSpan> optim;    // master.<name>, exp_avg.<name>, exp_avg_sq.<name>, quantiser state
  std::string config_json;          // config.json
  std::string state_json = "{}";    // an object: rng, data cursor, scales, ...
  std::vector<SideFile> tokenizer_files;
  std::map<std::string, double> scores;  // of this step's validation, finite
  Lineage lineage;                       // `parent` is filled in by the store

  std::uint64_t size_bytes() const;
};

// The score that says which checkpoint is best: the lowest.
constexpr const char* kBestScore = "val_loss";

struct Retention {
  std::int64_t keep_last = 0;   // newest by step; 0 keeps all
  std::int64_t keep_every = 0;  // steps divisible by this stay; 0: none
  std::int64_t keep_best = 0;   // as many with the lowest kBestScore stay; those without one never count as good
};

// The folder `checkpoints` of a run. The caller holds the run's lock.
class CheckpointStore {
 public:
  // Creates the folder, removes what killed saves left, and finishes or undoes an interrupted replacement.
  explicit CheckpointStore(std::string dir);

  const std::string& dir() const { return dir_; }
  // The id that the next checkpoint names as its parent: set it after a resume; save() advances it.
  void set_parent(std::string id) { parent_ = std::move(id); }

  // Returns the path of step-N. An earlier folder step-N is replaced. kRuntime when there is not enough free space
  // (seen before anything is written) or an operation fails; the temporary folder is then removed, at the latest by the
  // next save or start.
  std::string save(const CheckpointContents& contents);

  // Removes this run's checkpoints that the rule does not keep. Never the one of `saved_step`, and never a folder that
  // is not named step-N or whose manifest names another run.
  void apply_retention(const Retention& rule, std::int64_t saved_step, const std::string& run_id);

 private:
  struct Saved {
    std::int64_t step = 0;
    std::optional<double> score;
  };
  // This run's checkpoints, newest first.
  std::vector<Saved> saved_of(const std::string& run_id) const;
  void clean_up();
  void publish(const std::string& temp_dir, std::int64_t step);

  std::string dir_;
  std::string parent_;
};

}  // namespace ida::checkpoint

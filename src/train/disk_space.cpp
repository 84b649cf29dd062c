#include "train/disk_space.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "model/param_spec.h"

namespace ida::train {

std::uint64_t checkpoint_bytes(const EngineSpec& spec) {
  constexpr std::int64_t kTensorBytes = 512;  // of a tensor in a header and in the manifest
  constexpr std::int64_t kTokenBytes = 128;   // of a token and its merge in tokenizer.json
  constexpr std::int64_t kSideBytes = 1 << 20;
  const model::ParamTable table = model::build_param_table(spec.model);
  const bool has_master = spec.recipe.compute != DType::kF32;
  const std::int64_t num_moments = spec.optimizer.kind == ops::OptimizerKind::kAdamW ? 2 : 1;
  const std::int64_t value_bytes = dtype_size_bytes(spec.recipe.compute) + (has_master ? 4 : 0) +
                                   num_moments * dtype_size_bytes(spec.optimizer.state_dtype);
  const auto num_tensors = static_cast<std::int64_t>(table.params.size()) * (2 + num_moments);
  return static_cast<std::uint64_t>(table.num_parameters * value_bytes + num_tensors * kTensorBytes +
                                    spec.model.vocab_size * kTokenBytes + kSideBytes);
}

std::int64_t most_checkpoints(const config::TrainSettings& train, std::int64_t num_steps) {
  const std::int64_t every = train.save_every > 0 ? std::min(train.save_every, num_steps) : num_steps;
  const std::int64_t saves = (num_steps + every - 1) / every;
  if (train.keep_last == 0) return saves;
  const std::int64_t regular = train.keep_every > 0 ? num_steps / std::max(train.keep_every, every) : 0;
  const std::int64_t best = train.eval_every > 0 ? train.keep_best : std::min<std::int64_t>(train.keep_best, 1);
  // Each is cut to `saves` first: sums of what a user may write must not overflow.
  return std::min(saves, std::min(saves, train.keep_last) + std::min(saves, regular) + std::min(saves, best));
}

void check_disk_space(const config::RunConfig& config, const EngineSpec& spec, const std::string& run_dir) {
  const std::string dir = run_dir + "/checkpoints";
  const std::int64_t num_steps = config::total_steps(config);
  if (path_exists(dir + "/" + checkpoint::step_name(num_steps))) return;  // nothing is left to save
  std::int64_t present = 0;
  if (path_exists(dir)) {
    for (const std::string& name : list_directory(dir)) present += checkpoint::step_of_name(name) ? 1 : 0;
  }
  const std::int64_t most = most_checkpoints(config.train, num_steps);
  const std::int64_t missing = std::max<std::int64_t>(most - present, 0) + 1;  // one is written before another goes
  const double size = static_cast<double>(checkpoint_bytes(spec));
  const double needed = static_cast<double>(missing) * size;
  const double free = static_cast<double>(free_space_bytes(run_dir));
  if (needed <= free) return;
  constexpr double kMiB = 1048576.0;
  fail_runtime(
      "[train] {}: the checkpoints need {:.0f} MiB more ({} of {:.1f} MiB, one of them while it is written) but {:.0f} MiB "
      "are free: lower train.keep_last (0 keeps all), train.keep_best or raise train.keep_every, make room, or set run.dir",
      dir, needed / kMiB, missing, size / kMiB, free / kMiB);
}

}  // namespace ida::train

// From a run's configuration to what the engine needs: model, tokenizer, sizes, optimizer, schedule.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/store.h"
#include "config/load.h"
#include "data/build_shard.h"
#include "data/pieces.h"
#include "model/model_config.h"
#include "ops/backend.h"
#include "optim/schedule.h"
#include "text/tokenizer.h"
#include "train/engine.h"

namespace ida::train {

using Notice = std::function<void(std::string_view line)>;

// "<run.dir>/<run.name>"
std::string run_dir(const config::RunConfig& config);

// The model of [model]: a folder's config.json, or a preset and keys through the family table. vocab_size is what the
// configuration says (the size of the tokenizer to be trained, or the given tokenizer's); 0 never.
model::ModelConfig resolve_model(const config::RunConfig& config);

// The tokenizer of a run: the given one, the model folder's, or `<run>/tokenizer` (trained on data.train when missing).
text::Tokenizer resolve_tokenizer(const config::RunConfig& config, const Notice& notice);

// Sets the model's vocabulary to the tokenizer's where the configuration leaves it open; refuses (kUsage) a disagreement.
void match_vocabulary(const config::RunConfig& config, const text::Tokenizer& tokenizer, model::ModelConfig& model);

// Everything but the micro-batch size, which is set to one sequence.
EngineSpec engine_spec(const config::RunConfig& config, const model::ModelConfig& model);

// The largest divisor of the batch's sequences whose plan fits; or the configured size. Errors: kUsage for a size that
// does not divide the batch, kRuntime when not even one sequence fits.
std::int64_t choose_micro_batch_rows(const config::RunConfig& config, const EngineSpec& spec,
                                     const runtime::DeviceInfo& device, const ops::Backend& backend);

// Sequences of a global batch; kUsage when global_batch_tokens is no multiple of seq_len.
std::int64_t global_batch_rows(const config::RunConfig& config);

optim::Schedule schedule_of(const config::RunConfig& config);
// Without weights: those belong to the entries of data.train.
data::PackingOptions packing_of(const config::RunConfig& config);
// Without progress.
data::BuildOptions build_options_of(const config::RunConfig& config);

checkpoint::Retention retention_of(const config::TrainSettings& train);

// device.memory_limit, or what the device has.
std::int64_t memory_limit(const config::RunConfig& config, const runtime::DeviceInfo& device);

}  // namespace ida::train

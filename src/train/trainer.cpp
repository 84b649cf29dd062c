#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/hf_model.h"
#include "checkpoint/run_lock.h"
#include "data/prepare_dataset.h"
#include "eval/generate.h"
#include "train/build_progress.h"
#include "train/disk_space.h"
#include "train/gates.h"
#include "train/initial_weights.h"
#include "train/recorder.h"
#include "train/run_folder.h"
#include "train/setup.h"
#include "train/stop_signal.h"

namespace ida::train {
namespace {

using Clock = std::chrono::steady_clock;

// So many skipped steps in a row mean that skipping does not help.
constexpr std::int64_t kMaxSkipsInARow = 20;
constexpr std::int64_t kMaxRollbacks = 8;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A log on a full disk must not stop a run: what cannot be printed is not.
void notice(std::string_view line) { std::fputs(fmt::format("{}\n", line).c_str(), stderr); }

data::PreparedData prepare(const config::RunConfig& config, const text::Tokenizer& tokenizer,
                           const std::vector<std::string>& entries, const std::string& name) {
  const data::TokenizerEncoder<text::Tokenizer> encoder(tokenizer);
  const std::string path = run_dir(config) + "/data/" + name + ".shard";
  BuildProgressLine progress("data/" + name + ".shard");
  data::BuildOptions options = build_options_of(config);
  options.progress = [&](const data::BuildReport& so_far) {
    StopSignal::throw_if_requested();
    progress.update(so_far);
  };
  return data::prepare_dataset(entries, encoder, path, options);
}

class Trainer {
 public:
  Trainer(const config::RunConfig& config, runtime::Device& device, const ops::Backend& backend,
          std::vector<std::string> argv, OnChangedData on_changed_data)
      : config_(config),
        device_(device),
        backend_(backend),
        argv_(std::move(argv)),
        on_changed_data_(on_changed_data),
        dir_(run_dir(config)),
        lock_(dir_),
        num_steps_(config::total_steps(config)),
        schedule_(schedule_of(config)),
        gate_(config.gates.spike_sigma) {}

  TrainOutcome run();

 private:
  struct Fetched {
    data::Batch batch;
    data::BatchCursor end;  // the stream's after it
  };
  void fetch(Fetched& fetched);

  void prepare_run();
  std::vector<std::int32_t> sample_prompt() const;
  eval::ForwardModel forward_model() { return {engine_->context(), device_, engine_->decoder(), engine_->buffers()}; }
  void start_or_resume();
  void load(const checkpoint::Checkpoint& source);
  void start_from_weights();
  bool one_step();  // false when the run must stop early
  void skip_or_stop(GateVerdict verdict, Recorder::Step& step);
  void roll_back();
  void draw_sample();
  void save();
  void finish_save();
  void finish_last_save();

  const config::RunConfig& config_;
  runtime::Device& device_;
  const ops::Backend& backend_;
  std::vector<std::string> argv_;
  OnChangedData on_changed_data_;
  std::string dir_;
  checkpoint::RunLock lock_;
  std::int64_t num_steps_;
  optim::Schedule schedule_;
  StepGate gate_;

  std::optional<text::Tokenizer> tokenizer_;
  std::optional<data::PreparedData> train_data_;
  std::optional<data::PreparedData> valid_data_;
  std::optional<data::BatchStream> stream_;
  std::optional<data::ValidationSet> validation_;
  std::int64_t global_rows_ = 0;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<checkpoint::CheckpointStore> store_;
  std::unique_ptr<checkpoint::AsyncSaver> saver_;
  std::vector<std::byte> save_staging_;
  std::vector<std::vector<std::byte>> device_staging_;
  checkpoint::Lineage lineage_;
  std::vector<checkpoint::SideFile> tokenizer_files_;
  RunState state_;
  std::int64_t saved_step_ = -1;          // the newest checkpoint that is known to be complete
  std::int64_t attempted_step_ = -1;      // the newest that was tried
  std::map<std::string, double> scores_;  // of the last step's validation
  std::int64_t skips_in_a_row_ = 0;
  bool data_changed_ = false;  // since the checkpoint that was loaded, and accepted
  Fetched current_;
  Fetched next_;
  bool next_ready_ = false;  // next_ holds the batch after current_
};

void Trainer::prepare_run() {
  check_run_folder(config_, dir_);
  model::ModelConfig model = resolve_model(config_);
  check_disk_space(config_, engine_spec(config_, model), dir_);
  tokenizer_ = resolve_tokenizer(config_, notice);
  StopSignal::throw_if_requested();
  match_vocabulary(config_, *tokenizer_, model);
  write_run_config(config_, dir_);
  tokenizer_->save(tokenizer_folder(dir_));
  global_rows_ = global_batch_rows(config_);

  train_data_ = prepare(config_, *tokenizer_, config_.data.train, "train");
  if (train_data_->built) notice(fmt::format("training data: {}", train_data_->report.to_string()));
  data::PackingOptions train_packing = packing_of(config_);
  train_packing.weights = train_data_->source_weights(config_.data.weights);
  stream_.emplace(train_data_->dataset, train_packing);
  if (!config_.data.valid.empty()) {
    valid_data_ = prepare(config_, *tokenizer_, config_.data.valid, "valid");
    validation_.emplace(valid_data_->dataset, packing_of(config_));
  }
  EngineSpec spec = engine_spec(config_, model);
  if (config_.train.sample_every > 0) {
    spec.sample_shape = eval::generate_shape({sample_prompt()}, config_.train.sample_tokens);
    spec.max_positions = spec.sample_shape.capacity;
  }
  spec.micro_batch_rows = choose_micro_batch_rows(config_, spec, device_.info(), backend_);
  engine_ = std::make_unique<Engine>(spec, device_, backend_, memory_limit(config_, device_.info()));
}

std::vector<std::int32_t> Trainer::sample_prompt() const {
  std::vector<std::int32_t> prompt = tokenizer_->encode(config_.train.sample_prompt, true);
  if (prompt.empty()) prompt.push_back(tokenizer_->bos_id().value_or(tokenizer_->eos_id().value_or(0)));
  return prompt;
}

void Trainer::load(const checkpoint::Checkpoint& source) {
  const std::string& checkpoint_dir = source.dir();
  if (source.manifest().lineage.config_hash != lineage_.config_hash)
    fail_usage("{}: was written under another configuration; use another run.name", checkpoint_dir);
  RunState state = parse_run_state(source.state_json(), checkpoint_dir + "/" + checkpoint::kStateName);
  if (state.data_plan_hash != stream_->plan_hash()) {
    if (on_changed_data_ == OnChangedData::kRefuse)
      fail_usage(
          "{}: the training data changed since this checkpoint; restore it, use another run.name, or give "
          "--accept-changed-data to go on with the new data from its beginning",
          checkpoint_dir);
    data_changed_ = true;
    state.data_plan_hash = stream_->plan_hash();
    state.cursor = {};
  }
  load_engine(*engine_, source);
  store_->set_parent(source.manifest().id());
  gate_.restore(state.gate_window);
  stream_->restore(state.cursor);
  state_ = std::move(state);
}

void Trainer::start_or_resume() {
  lineage_ = {.run_id = config_.run.name,
              .parent = {},
              .config_hash = config::config_hash(config_),
              .data_fingerprint = train_data_->dataset.fingerprint(),
              .build_id = evidence::build_id().commit};
  store_ = std::make_unique<checkpoint::CheckpointStore>(dir_ + "/checkpoints");
  tokenizer_files_ = checkpoint::read_tokenizer_files(tokenizer_folder(dir_));
  recorder_ = std::make_unique<Recorder>(
      config_,
      RunFacts{
          .dir = dir_, .argv = argv_, .config_hash = lineage_.config_hash, .data_fingerprint = lineage_.data_fingerprint},
      *engine_);
  std::vector<std::string> passed_over;
  const auto newest = checkpoint::open_newest_complete(dir_ + "/checkpoints", passed_over);
  for (const std::string& line : passed_over) notice(line);
  if (newest) {
    load(*newest);
    saved_step_ = attempted_step_ = state_.step;
    notice(fmt::format("resuming after step {}", state_.step));
  } else if (!passed_over.empty()) {
    fail_corrupt("{}/checkpoints: holds checkpoints, none of them complete; remove the folder to start from the first step",
                 dir_);
  } else {
    start_from_weights();
  }
}

void Trainer::fetch(Fetched& fetched) {
  stream_->next(global_rows_, fetched.batch);
  fetched.end = stream_->cursor();
}

void Trainer::start_from_weights() {
  state_ = {};
  state_.seed = config_.run.seed;
  state_.data_plan_hash = stream_->plan_hash();
  if (!config_.model.path) return engine_->set_masters(initial_weights(engine_->table(), config_.run.seed));
  const std::string& path = *config_.model.path;
  std::vector<float> masters(static_cast<std::size_t>(engine_->table().total_elems));
  checkpoint::read_hf_weights(checkpoint::open_model(path), engine_->table(), masters);
  engine_->set_masters(masters);
  // A checkpoint of another run is the parent of this one's first.
  if (path_exists(path + "/" + checkpoint::kManifestName)) store_->set_parent(checkpoint::read_manifest(path).id());
}

bool Trainer::one_step() {
  const auto start = Clock::now();
  if (!next_ready_) fetch(next_);
  std::swap(current_, next_);
  engine_->enqueue(current_.batch);
  next_ready_ = state_.step + 1 < num_steps_;
  if (next_ready_) fetch(next_);  // while the device works
  const auto num_sources = static_cast<std::int64_t>(train_data_->dataset.source_names().size());
  Recorder::Step step{.result = engine_->finish(current_.batch, num_sources),
                      .lr = optim::learning_rate(schedule_, state_.step + 1),
                      .validation = {}};
  const GateVerdict verdict = gate_.judge(step.result.loss, step.result.finite);
  ++state_.step;
  state_.tokens += step.result.targets;
  state_.cursor = current_.end;
  if (verdict == GateVerdict::kApply) {
    engine_->update(++state_.updates, step.lr, step.result.grad_norm);
    skips_in_a_row_ = 0;
  } else {
    skip_or_stop(verdict, step);
    if (!step.skipped) return true;  // rolled back: this step never happened
  }
  state_.gate_window = gate_.window();
  step.step_s = seconds_since(start);
  state_.elapsed_s += step.step_s;

  const bool last = state_.step == num_steps_;
  const auto due = [&](std::int64_t every) { return every > 0 && state_.step % every == 0; };
  if (validation_ && (due(config_.train.eval_every) || last)) step.validation = validate(*engine_, *validation_);
  recorder_->step(state_, step, train_data_->dataset.source_names(),
                  due(config_.train.log_every) || last || state_.step == 1);
  scores_.clear();
  if (step.validation) {
    const double nats = step.validation->total().nats_per_token();
    if (std::isfinite(nats)) scores_[checkpoint::kBestScore] = nats;
    recorder_->score("val_loss", nats, "nats/token", state_.step);
    recorder_->score("val_bits_per_byte", step.validation->total().bits_per_byte(), "bits/byte", state_.step);
  }
  if (due(config_.train.sample_every) || (last && config_.train.sample_every > 0)) draw_sample();
  // Last: a checkpoint whose step is not yet on record would leave a hole there when the run is killed now.
  if (due(config_.train.save_every) || last) save();
  return !StopSignal::requested();
}

void Trainer::skip_or_stop(GateVerdict verdict, Recorder::Step& step) {
  const bool spike = verdict == GateVerdict::kSpike;
  const std::string what =
      spike ? fmt::format("loss spike: {:.4f}", step.result.loss)
            : fmt::format("non-finite step: loss {}, gradient norm {}", step.result.loss, step.result.grad_norm);
  const bool stop = spike ? config_.gates.spike_action == config::SpikeAction::kStop
                          : config_.gates.non_finite == config::NonFinite::kStop;
  if (spike && config_.gates.spike_action == config::SpikeAction::kRollback) {
    recorder_->failure(what, "rolling back to the newest checkpoint; its data is passed over", state_.step);
    return roll_back();
  }
  ++state_.skipped;
  step.skipped = true;
  recorder_->failure(what, stop ? "gate: stop" : "update skipped", state_.step);
  if (stop)
    fail_gate("[gates] step {}: {}; the run stops (gates.{})", state_.step, what, spike ? "spike_action" : "non_finite");
  if (++skips_in_a_row_ >= kMaxSkipsInARow)
    fail_gate("[gates] step {}: {}; {} steps in a row were skipped, the run cannot recover by itself", state_.step, what,
              skips_in_a_row_);
}

void Trainer::roll_back() {
  finish_save();
  if (saved_step_ < 0) fail_gate("[gates] step {}: a spike before the first checkpoint cannot be rolled back", state_.step);
  if (state_.rollbacks >= kMaxRollbacks)
    fail_gate("[gates] step {}: {} rollbacks did not help, the run stops", state_.step, state_.rollbacks);
  const data::BatchCursor cursor = current_.end;
  const std::int64_t rollbacks = state_.rollbacks + 1;
  const RunState before = state_;
  load(checkpoint::open_checkpoint(fmt::format("{}/checkpoints/{}", dir_, checkpoint::step_name(saved_step_))));
  state_.rollbacks = rollbacks;
  // The checkpoint's counts contain calls of this start, which the engine's context still counts.
  state_.counters = before.counters;
  state_.op_calls = before.op_calls;
  state_.gemm_flops = before.gemm_flops;
  state_.elapsed_s = before.elapsed_s;
  state_.cursor = cursor;
  stream_->restore(cursor);
  next_ready_ = false;
  recorder_->begin(state_.step, num_steps_, static_cast<std::int64_t>(train_data_->dataset.source_names().size()));
}

void Trainer::draw_sample() {
  const std::vector<std::int32_t> prompt = sample_prompt();
  eval::GenerateOptions options;
  options.max_new_tokens = config_.train.sample_tokens;
  options.sampling = {.temperature = 0.8, .top_k = 40, .seed = config_.run.seed};
  if (const auto eos = tokenizer_->eos_id()) options.stop_ids = {*eos};
  const auto output = eval::generate(forward_model(), {prompt}, options);
  recorder_->sample(state_.step, config_.train.sample_prompt, tokenizer_->decode(output.front()));
}

void Trainer::save() {
  finish_save();
  recorder_->flush();
  RunState state = state_;
  state.counters.add(engine_->context().calls.gemms);
  for (const auto& [key, calls] : engine_->context().calls.ops)
    state.op_calls[fmt::format("{}/{}", key.first, key.second)] += calls;
  state.gemm_flops += engine_->context().calls.gemm_flops;
  checkpoint::CheckpointContents contents = checkpoint_contents(*engine_, state, device_staging_);
  contents.tokenizer_files = tokenizer_files_;
  contents.lineage = lineage_;
  contents.scores = scores_;
  if (!saver_) {
    // The snapshot is kept only where the device's memory has room for it beside the plan.
    const auto bytes = static_cast<std::int64_t>(checkpoint::AsyncSaver::staging_bytes(contents));
    if (engine_->plan().memory.total_bytes + bytes <= memory_limit(config_, device_.info()) / 2)
      save_staging_.resize(static_cast<std::size_t>(bytes));
    saver_ = std::make_unique<checkpoint::AsyncSaver>(*store_, save_staging_);
  }
  saver_->save(std::move(contents), retention_of(config_.train));
  attempted_step_ = state_.step;
  recorder_->write_evidence(state_, *engine_, "running");
  recorder_->message(fmt::format("step {}  saving checkpoints/{} (stall {:.3f} s)", state_.step,
                                 checkpoint::step_name(state_.step), saver_->last_stall_s()));
}

// Waits for the save in flight. One that failed does not end the run: the checkpoint before it is intact, and the next
// save is the next attempt.
void Trainer::finish_save() {
  if (!saver_) return;
  std::string problem;
  try {
    saver_->wait();
  } catch (const Error& error) {
    problem = error.what();
  }
  saved_step_ = std::max(saved_step_, saver_->saved_step());
  if (problem.empty()) return;
  const std::string stays = saved_step_ < 0 ? "no checkpoint yet" : "the newest is " + checkpoint::step_name(saved_step_);
  recorder_->failure(fmt::format("warning: checkpoint of step {}", attempted_step_),
                     fmt::format("{}; training goes on, {}, the next save tries again", problem, stays), attempted_step_);
}

// Of the last save nobody tries again: its failure is the run's.
void Trainer::finish_last_save() {
  try {
    saver_->wait();
  } catch (const Error& error) {
    saved_step_ = std::max(saved_step_, saver_->saved_step());
    if (saved_step_ == attempted_step_) throw;
    fail_runtime("{}; the last checkpoint could not be saved, {}; make room and give the same command again", error.what(),
                 saved_step_ < 0 ? "there is no other" : checkpoint::step_name(saved_step_) + " stays");
  }
}

TrainOutcome Trainer::run() {
  const StopSignal signal;
  prepare_run();
  start_or_resume();
  TrainOutcome outcome{.step = state_.step, .run_dir = dir_};
  if (state_.step >= num_steps_) {
    outcome.already_done = true;
    return outcome;
  }
  recorder_->begin(state_.step > 0 ? state_.step : -1, num_steps_,
                   static_cast<std::int64_t>(train_data_->dataset.source_names().size()));
  if (data_changed_)
    recorder_->failure("the training data changed since this checkpoint",
                       "accepted; goes on with the new data from its beginning", state_.step);
  try {
    while (state_.step < num_steps_ && one_step()) continue;
    outcome.stopped = state_.step < num_steps_;
    if (attempted_step_ != state_.step) save();
    finish_last_save();
  } catch (const std::exception& error) {
    recorder_->failure("run failed", error.what(), state_.step);
    recorder_->finish(state_, *engine_, "failed");
    throw;
  }
  recorder_->finish(state_, *engine_, outcome.stopped ? "stopped" : "done");
  outcome.step = state_.step;
  return outcome;
}

}  // namespace

TrainOutcome train(const config::RunConfig& config, runtime::Device& device, const ops::Backend& backend,
                   const std::vector<std::string>& argv, OnChangedData on_changed_data) {
  return Trainer(config, device, backend, argv, on_changed_data).run();
}

}  // namespace ida::train

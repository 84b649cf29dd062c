// Everything a run writes beside its checkpoints: metrics, events, samples, evidence, ledger, the progress line.
//
// From begin() to finish() a record that cannot be written does not end the training: it is said once, log lines are kept
// and written when the disk takes them again, and finish() throws what is then still not on disk.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "evidence/ledger.h"
#include "evidence/record.h"
#include "metrics/metrics_jsonl.h"
#include "metrics/mllog.h"
#include "metrics/progress_line.h"
#include "metrics/prometheus.h"
#include "metrics/samples_jsonl.h"
#include "metrics/tensorboard.h"
#include "train/engine.h"
#include "train/kernel_proof.h"
#include "train/run_state.h"
#include "train/validation.h"

namespace ida::train {

// What is known before the first step.
struct RunFacts {
  std::string dir;
  std::vector<std::string> argv;
  std::string config_hash;
  std::string data_fingerprint;
  const KernelProof* proof = nullptr;  // outlives the recorder
};

class Recorder {
 public:
  Recorder(const config::RunConfig& config, const RunFacts& facts, const Engine& engine);

  // Opens the sinks; everything after `resume_step` (-1: all) is cut, so that a step appears once.
  void begin(std::int64_t resume_step, std::int64_t num_steps, std::int64_t num_sources);

  struct Step {
    StepResult result;
    double lr = 0.0;
    double step_s = 0.0;
    bool skipped = false;
    std::optional<ValidationResult> validation;
  };
  void step(const RunState& state, const Step& step, const std::vector<std::string>& source_names, bool log);
  void sample(std::int64_t step, const std::string& prompt, const std::string& text);
  void message(std::string_view text) { progress_.message(text); }
  void failure(const std::string& what, const std::string& reason, std::int64_t step);
  void score(const std::string& name, double value, const std::string& unit, std::int64_t step);
  // Lines reach the disk; before every checkpoint.
  bool flush();  // false where something stays unwritten
  // evidence.json as it stands; `status` is running, done, stopped or failed.
  bool write_evidence(const RunState& state, Engine& engine, const std::string& status);
  void finish(const RunState& state, Engine& engine, const std::string& status);

 private:
  // Runs `write`; false where it failed, which becomes a warning.
  bool attempt(const std::function<void()>& write);
  evidence::EvidenceRecord evidence(const RunState& state, Engine& engine, const std::string& status) const;

  const config::RunConfig& config_;
  RunFacts facts_;
  std::string started_at_;
  std::int64_t num_steps_ = 0;
  std::int64_t num_sources_ = 1;
  std::int64_t ledger_run_ = 0;
  metrics::ProgressLine progress_;
  std::unique_ptr<metrics::MetricsJsonl> jsonl_;
  std::unique_ptr<metrics::TensorBoardEvents> tensorboard_;
  std::unique_ptr<metrics::PrometheusFile> prometheus_;
  std::unique_ptr<metrics::SamplesJsonl> samples_;
  std::unique_ptr<metrics::MllogWriter> mllog_;
  std::unique_ptr<evidence::Ledger> ledger_;
  std::string device_name_;
  std::string trouble_;  // the last warning
};

// Rows of a site plan that resolved alike, folded by (module, pass).
std::vector<evidence::PlanFacts> plan_facts(const ops::SitePlan& plan);

}  // namespace ida::train

#include "train/recorder.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "evidence/environment.h"

namespace ida::train {
namespace {

std::vector<std::string> isa_names(const runtime::DeviceInfo& device) {
  std::vector<std::string> names;
  if (device.cpu.avx2) names.emplace_back("avx2");
  if (device.cpu.avx512) names.emplace_back("avx512");
  if (device.cpu.avx512_bf16) names.emplace_back("avx512_bf16");
  if (device.cpu.amx_bf16) names.emplace_back("amx_bf16");
  if (device.sm > 0) names.push_back(fmt::format("sm{}", device.sm));
  return names;
}

bool same_row(const evidence::PlanFacts& a, const evidence::PlanFacts& b) {
  return a.module == b.module && a.pass == b.pass && a.engine == b.engine && a.desc == b.desc;
}

}  // namespace

std::vector<evidence::PlanFacts> plan_facts(const ops::SitePlan& plan) {
  std::vector<evidence::PlanFacts> facts;
  for (std::size_t i = 0; i < plan.sites.size(); ++i) {
    for (int p = 0; p < ops::kNumPasses; ++p) {
      const ops::SitePlanRow& row = plan.rows[i][static_cast<std::size_t>(p)];
      evidence::PlanFacts fact{.module = std::string(ops::module_name(plan.sites[i].module)),
                               .pass = std::string(ops::pass_name(static_cast<ops::Pass>(p))),
                               .engine = std::string(row.engine),
                               .desc = row.desc.to_string(),
                               .num_sites = 1,
                               .refused = {}};
      for (const ops::RefusalRecord& r : row.refused)
        fact.refused.push_back(
            {std::string(r.impl), std::string(ops::refusal_kind_name(r.refusal.kind)), std::string(r.refusal.reason)});
      const auto same = std::find_if(facts.begin(), facts.end(), [&](const auto& f) { return same_row(f, fact); });
      if (same != facts.end()) {
        ++same->num_sites;
      } else {
        facts.push_back(std::move(fact));
      }
    }
  }
  return facts;
}

Recorder::Recorder(const config::RunConfig& config, const RunFacts& facts, const Engine& engine)
    : config_(config), facts_(facts), started_at_(evidence::utc_now()), device_name_(engine.device().info().name) {}

void Recorder::begin(std::int64_t resume_step, std::int64_t num_steps, std::int64_t num_sources) {
  num_steps_ = num_steps;
  num_sources_ = num_sources;
  jsonl_ = std::make_unique<metrics::MetricsJsonl>(facts_.dir + "/metrics.jsonl", resume_step);
  samples_ = std::make_unique<metrics::SamplesJsonl>(facts_.dir + "/samples.jsonl", resume_step);
  tensorboard_ = std::make_unique<metrics::TensorBoardEvents>(facts_.dir, resume_step);
  prometheus_ = std::make_unique<metrics::PrometheusFile>(facts_.dir + "/metrics.prom", config_.run.name);
  mllog_ = std::make_unique<metrics::MllogWriter>(facts_.dir + "/mllog.txt");
  if (resume_step < 0) {
    mllog_->write(metrics::MllogEvent::kPoint, "seed", static_cast<std::int64_t>(config_.run.seed));
    mllog_->write(metrics::MllogEvent::kPoint, "global_batch_size",
                  config_.train.global_batch_tokens / config_.data.seq_len);
    mllog_->write(metrics::MllogEvent::kPoint, "max_sequence_length", config_.data.seq_len);
  }
  mllog_->write(metrics::MllogEvent::kStart, "run_start", std::monostate{},
                {{"step", std::max<std::int64_t>(resume_step, 0)}});
  ledger_ = std::make_unique<evidence::Ledger>(config_.run.dir + "/ledger.sqlite");
  evidence::RunRow row;
  row.name = config_.run.name;
  row.dir = facts_.dir;
  row.started_at = started_at_;
  row.config_hash = facts_.config_hash;
  row.recipe = config_.precision.recipe;
  row.device = device_name_;
  row.build = evidence::build_id().commit;
  row.resumed_from = resume_step;
  ledger_run_ = ledger_->start_run(row);
}

void Recorder::step(const RunState& state, const Step& step, const std::vector<std::string>& source_names, bool log) {
  const double tokens_per_s = static_cast<double>(step.result.targets) / step.step_s;
  if (log || step.validation || step.skipped) {
    metrics::MetricsRecord record{.step = state.step, .tokens = state.tokens, .values = {}};
    record.set(metrics::kLoss, step.result.loss);
    if (num_sources_ > 1) {
      for (std::size_t i = 0; i < step.result.source_nll.size(); ++i)
        if (step.result.source_targets[i] > 0)
          record.set("loss/" + source_names[i],
                     step.result.source_nll[i] / static_cast<double>(step.result.source_targets[i]));
    }
    if (step.validation) {
      const SourceLoss total = step.validation->total();
      record.set(metrics::kValLoss, total.nats_per_token());
      record.set(metrics::kValBitsPerByte, total.bits_per_byte());
      for (const SourceLoss& source : step.validation->sources) {
        if (step.validation->sources.size() < 2) break;
        record.set("val_loss/" + source.name, source.nats_per_token());
        record.set("val_bits_per_byte/" + source.name, source.bits_per_byte());
      }
      attempt([&] {
        mllog_->write(metrics::MllogEvent::kPoint, "eval_loss", total.nats_per_token(),
                      {{"step", state.step}, {"samples_count", state.tokens}});
      });
    }
    record.set(metrics::kLr, step.lr);
    record.set(metrics::kGradNorm, step.result.grad_norm);
    record.set(metrics::kTokensPerSecond, tokens_per_s);
    record.set(metrics::kElapsed, state.elapsed_s);
    if (step.skipped) record.set("skipped", 1.0);
    attempt([&] { jsonl_->write(record); });
    attempt([&] { tensorboard_->write(record); });
    attempt([&] { prometheus_->write(record); });
  }
  progress_.update({.step = state.step,
                    .num_steps = num_steps_,
                    .loss = step.result.loss,
                    .tokens_per_s = tokens_per_s,
                    .grad_norm = step.result.grad_norm,
                    .lr = step.lr,
                    .mfu_frac = {},
                    .eta_s = {}});
  if (step.validation) {
    const SourceLoss total = step.validation->total();
    progress_.message(fmt::format("step {}  val_loss {:.4f} nats/token  {:.4f} bits/byte", state.step,
                                  total.nats_per_token(), total.bits_per_byte()));
  }
}

void Recorder::sample(std::int64_t step, const std::string& prompt, const std::string& text) {
  attempt([&] { samples_->write({.step = step, .prompt = prompt, .text = text}); });
  attempt([&] { tensorboard_->write_text("sample", prompt + text, step); });
  progress_.message(fmt::format("step {}  sample: {}{}", step, prompt, text));
}

void Recorder::failure(const std::string& what, const std::string& reason, std::int64_t step) {
  attempt([&] { ledger_->add_failure(ledger_run_, {.what = what, .reason = reason, .step = step}); });
  progress_.message(fmt::format("step {}  {}: {}", step, what, reason));
}

void Recorder::score(const std::string& name, double value, const std::string& unit, std::int64_t step) {
  if (!std::isfinite(value)) return;
  attempt([&] {
    ledger_->add_score(ledger_run_, {.name = name, .value = value, .unit = unit, .dataset = "valid", .step = step});
  });
}

bool Recorder::attempt(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const Error& error) {
    if (std::exchange(trouble_, error.what()) != error.what())
      progress_.message(fmt::format("warning: {}; training goes on", error.what()));
    return false;
  }
}

bool Recorder::flush() {
  bool written = attempt([&] { jsonl_->flush(); });
  written &= attempt([&] { tensorboard_->flush(); });
  written &= attempt([&] { prometheus_->flush(); });
  written &= attempt([&] { mllog_->flush(); });
  return written;
}

evidence::EvidenceRecord Recorder::evidence(const RunState& state, Engine& engine, const std::string& status) const {
  evidence::EvidenceRecord record;
  const bool running = status == "running";
  record.run = {.name = config_.run.name,
                .status = status,
                .started_at = started_at_,
                .finished_at = running ? std::string() : evidence::utc_now(),
                .elapsed_s = state.elapsed_s,
                .steps = state.step,
                .tokens = state.tokens,
                .parameters = engine.table().num_parameters,
                .argv = facts_.argv,
                .config_hash = facts_.config_hash,
                .data_fingerprint = facts_.data_fingerprint,
                .recipe = config_.precision.recipe,
                .gemm_flops = state.gemm_flops + engine.context().calls.gemm_flops};
  const std::string compute(dtype_name(engine.spec().recipe.compute));
  record.precision = {
      .compute = compute == "f32" ? "fp32" : compute, .master = "fp32", .inference = compute == "f32" ? "fp32" : compute};
  record.build = evidence::build_id();
  const runtime::DeviceInfo& device = engine.device().info();
  record.device = {.backend = device.backend == runtime::BackendKind::kCpu ? "cpu" : "cuda",
                   .name = device.name,
                   .cores = device.num_cores,
                   .memory_bytes = device.memory_bytes,
                   .planned_bytes = engine.plan().memory.device_bytes(),
                   .used_bytes = engine.device().used_bytes(),
                   .isa = isa_names(device)};
  if (!device.onednn_version.empty()) record.libraries["onednn"] = device.onednn_version;
  record.environment = evidence::collect_environment();
  ops::EngineCounters counters = state.counters;
  counters.add(engine.context().calls.gemms);
  for (const auto& [module, engines] : counters.calls)
    record.modules[module].engines.insert(engines.begin(), engines.end());
  for (const auto& [module, reasons] : counters.fallbacks)
    record.modules[module].fallbacks.insert(reasons.begin(), reasons.end());
  for (const auto& [name, calls] : state.op_calls) record.ops[name] += calls;
  for (const auto& [key, calls] : engine.context().calls.ops)
    record.ops[fmt::format("{}/{}", key.first, key.second)] += calls;
  record.plan = plan_facts(engine.site_plan());
  return record;
}

bool Recorder::write_evidence(const RunState& state, Engine& engine, const std::string& status) {
  return attempt([&] { evidence::write_evidence(evidence(state, engine, status), facts_.dir + "/evidence.json"); });
}

void Recorder::finish(const RunState& state, Engine& engine, const std::string& status) {
  const char* outcome = status == "done" ? "success" : "aborted";
  attempt([&] {
    mllog_->write(metrics::MllogEvent::kEnd, "run_stop", std::monostate{},
                  {{"status", std::string(outcome)}, {"step", state.step}});
  });
  bool written = flush();
  written &= write_evidence(state, engine, status);
  const nlohmann::json summary = {{"tokens", state.tokens}, {"elapsed_s", state.elapsed_s}, {"skipped", state.skipped}};
  written &= attempt([&] { ledger_->finish_run(ledger_run_, status, state.step, summary.dump()); });
  // A run that failed has an error of its own to report.
  if (!written && status != "failed")
    fail_runtime("{}; the checkpoints are complete, the run's records are not: make room", trouble_);
}

}  // namespace ida::train

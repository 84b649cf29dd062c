#include <nlohmann/json.hpp>

#include "base/units.h"
#include "metrics/progress_line.h"
#include "train/plan_report.h"

namespace ida::train {
namespace {

using Json = nlohmann::json;

std::string line(const char* label, const std::string& value) { return fmt::format("{:<16} {}\n", label, value); }

std::string memory_line(std::string_view name, std::int64_t bytes, std::string_view note) {
  return fmt::format("  {:<16} {:>8.1f} MiB{}{}\n", name, mib(bytes), note.empty() ? "" : "  ", note);
}

std::string memory_text(const PlanReport& r) {
  std::string text = "memory at the peak\n";
  for (const PlanMemory& m : r.memory)
    if (!m.on_host) text += memory_line(m.name, m.bytes, m.note);
  text += memory_line("arena", r.arena_bytes, "planned before the first step, no allocation later");
  text += memory_line("total", r.total_bytes, fmt::format("of {:.1f} MiB", mib(r.limit_bytes)));
  for (const PlanMemory& m : r.memory)
    if (m.on_host) text += memory_line(m.name, m.bytes, "in host memory: " + m.note);
  return text;
}

std::string refusals_text(const evidence::PlanFacts& site) {
  std::string text;
  for (const evidence::RefusedEngine& refused : site.refused)
    text += fmt::format("    not {} ({}): {}\n", refused.engine, refused.kind, refused.reason);
  return text;
}

// Refusals follow the first of the rows that they hold for.
std::string sites_text(const PlanReport& r) {
  std::string text = "matrix products\n";
  std::string last;
  for (const evidence::PlanFacts& site : r.sites) {
    text += fmt::format("  {:<8} {:<6} x{:<4} {:<28} {}\n", site.module, site.pass, site.num_sites, site.engine, site.desc);
    const std::string refusals = refusals_text(site);
    if (refusals != last) text += refusals;
    last = refusals;
  }
  return text;
}

}  // namespace

std::string render_plan(const PlanReport& r) {
  std::string text = line("run", r.run_dir) + line("device", r.device) + line("recipe", r.recipe);
  text += line("parameters", fmt::format("{} ({})", r.parameters, metrics::format_si(static_cast<double>(r.parameters))));
  text += line("steps",
               fmt::format("{} of {} tokens, {} tokens in all", r.steps, r.global_batch_sequences * r.seq_len, r.tokens));
  text += line("global batch",
               fmt::format("{} sequences of {} tokens in {} micro-batches of {}", r.global_batch_sequences, r.seq_len,
                           r.global_batch_sequences / r.micro_batch_sequences, r.micro_batch_sequences));
  text += line("FLOP/token", fmt::format("{:.4g}: matrix products {:.4g}, attention at most {:.4g} (forward and backward)",
                                         r.gemm_flop_per_token + r.attention_flop_per_token, r.gemm_flop_per_token,
                                         r.attention_flop_per_token));
  text += memory_text(r);
  const std::string speed = r.tokens_per_s ? metrics::format_si(*r.tokens_per_s) + " tokens/s" : "n/a";
  text += line("throughput", fmt::format("{} ({})", speed, r.tokens_per_s_source));
  text += line("ETA", r.eta_s ? metrics::format_duration(*r.eta_s) : "n/a");
  text += sites_text(r);
  for (const std::string& note : r.notes) text += line("note", note);
  return text;
}

std::string to_json(const PlanReport& r) {
  Json memory = Json::array();
  for (const PlanMemory& m : r.memory)
    memory.push_back({{"name", m.name}, {"bytes", m.bytes}, {"note", m.note}, {"on_host", m.on_host}});
  Json sites = Json::array();
  for (const evidence::PlanFacts& s : r.sites) {
    Json refused = Json::array();
    for (const evidence::RefusedEngine& e : s.refused)
      refused.push_back({{"engine", e.engine}, {"kind", e.kind}, {"reason", e.reason}});
    sites.push_back({{"module", s.module},
                     {"pass", s.pass},
                     {"engine", s.engine},
                     {"desc", s.desc},
                     {"num_sites", s.num_sites},
                     {"refused", std::move(refused)}});
  }
  Json json = {{"run_dir", r.run_dir},
               {"recipe", r.recipe},
               {"device", r.device},
               {"parameters", r.parameters},
               {"steps", r.steps},
               {"tokens", r.tokens},
               {"seq_len", r.seq_len},
               {"global_batch_sequences", r.global_batch_sequences},
               {"micro_batch_sequences", r.micro_batch_sequences},
               {"gemm_flop_per_token", r.gemm_flop_per_token},
               {"attention_flop_per_token", r.attention_flop_per_token},
               {"memory", std::move(memory)},
               {"arena_bytes", r.arena_bytes},
               {"total_bytes", r.total_bytes},
               {"limit_bytes", r.limit_bytes},
               {"sites", std::move(sites)},
               {"notes", r.notes}};
  if (r.tokens_per_s) json["tokens_per_s"] = *r.tokens_per_s;
  if (r.eta_s) json["eta_s"] = *r.eta_s;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ida::train

// evidence.json: what was asked of a run and what executed, as one plain record.
//
//   {"version": 1,
//    "run": {"name", "status", "started_at", "finished_at", "elapsed_s", "steps", "tokens", "parameters", "argv": [...],
//            "config_hash", "data_fingerprint", "recipe", "gemm_flops"},
//    "precision": {"compute", "master", "inference"},
//    "build": {"commit", "version", "compiler", "type"},
//    "device": {"backend", "name", "cores", "memory_bytes", "planned_bytes", "used_bytes",
//    "isa": [...]}, "libraries": {name: version},
//    "environment": {"os", "kernel", "hostname"},
//    "engines": {name: calls}, "fallbacks": {reason: n},
//    "modules": {module: {"engines": {name: calls}, "fallbacks": {reason: n}}},
//    "ops": {"op/implementation": calls}, "kernels": {name: launches},
//    "kernel_window": {"step", "by_op": {"op/implementation": {name: launches}}, "differences": [...], "absent"},
//    "plan": [{"module", "pass", "engine", "desc", "num_sites", "refused": [{"engine", "kind", "reason"}]}]}
//
// The totals are sums over the modules and are checked when a file is read.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/build_id.h"
#include "evidence/environment.h"

namespace ida::evidence {

using Counts = std::map<std::string, std::int64_t>;

struct RunFacts {
  std::string name;
  std::string status;       // "running", "done", "stopped", "failed"
  std::string started_at;   // UTC
  std::string finished_at;  // empty while it runs
  double elapsed_s = 0.0;
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  std::int64_t parameters = 0;  // trained, a tied matrix once
  std::vector<std::string> argv;
  std::string config_hash;
  std::string data_fingerprint;
  std::string recipe;
  double gemm_flops = 0.0;
  bool operator==(const RunFacts&) const = default;
};

// Three statements that are never folded into one.
struct PrecisionFacts {
  std::string compute;    // operands of the matrix products: "bf16", "mxfp8 (emulated)"
  std::string master;     // weights at rest between updates: "fp32"
  std::string inference;  // the weights a checkpoint hands out: "bf16"
  bool operator==(const PrecisionFacts&) const = default;
};

struct DeviceFacts {
  std::string backend;  // "cpu", "cuda"
  std::string name;
  std::int64_t cores = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t planned_bytes = 0;  // of it, that the run was to take
  std::int64_t used_bytes = 0;     // that the process held by the device's own count; 0: it cannot tell
  std::vector<std::string> isa;    // "avx2", "avx512", "amx_bf16", "sm90"
  bool operator==(const DeviceFacts&) const = default;
};

struct ModuleCounts {
  Counts engines;    // calls
  Counts fallbacks;  // calls that did not take the planned engine, by reason
  bool operator==(const ModuleCounts&) const = default;
};

struct RefusedEngine {
  std::string engine;
  std::string kind;  // "hardware", "build", "library", "shape", ...
  std::string reason;
  bool operator==(const RefusedEngine&) const = default;
};

// One step's kernels by the driver's records, beside what the program had recorded for it.
struct KernelWindowFacts {
  std::int64_t step = 0;                 // 0: none was watched
  std::map<std::string, Counts> by_op;   // "op/implementation" -> kernel -> launches, as recorded
  std::vector<std::string> differences;  // one line a kernel; empty: the two agree
  std::string absent;                    // why no step was watched
  bool operator==(const KernelWindowFacts&) const = default;
};

// What one (module, pass) resolved to before the run.
struct PlanFacts {
  std::string module;
  std::string pass;
  std::string engine;
  std::string desc;
  std::int64_t num_sites = 0;  // linear maps of this module with this very row
  std::vector<RefusedEngine> refused;
  bool operator==(const PlanFacts&) const = default;
};

struct EvidenceRecord {
  RunFacts run;
  PrecisionFacts precision;
  BuildId build;
  DeviceFacts device;
  std::map<std::string, std::string> libraries;  // "onednn", "cuda_driver" -> version; absent ones are left out
  Environment environment;
  std::map<std::string, ModuleCounts> modules;
  Counts ops;      // operations other than matrix products
  Counts kernels;  // launches by the driver's records, in the window; empty where none ran
  KernelWindowFacts kernel_window;
  std::vector<PlanFacts> plan;

  Counts engines() const;    // over all modules
  Counts fallbacks() const;  // over all modules
  bool operator==(const EvidenceRecord&) const = default;
};

// Indented JSON with a line end. Text that is not UTF-8 is repaired.
std::string to_json(const EvidenceRecord& record);
// `origin` (a path) starts every message. kCorrupt: no JSON, a wrong type, totals that are not the sums of the modules,
// a version of the future. Missing keys keep their defaults, unknown ones are ignored: old and new readers both work.
EvidenceRecord parse_evidence(std::string_view json, std::string_view origin);

// Replaces the file as a whole.
void write_evidence(const EvidenceRecord& record, const std::string& path);
EvidenceRecord read_evidence(const std::string& path);

}  // namespace ida::evidence

#include "evidence/record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace ida::evidence {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Json = nlohmann::json;

constexpr int kVersion = 1;

// One visitor a struct keeps the names of writing and reading together: `field(key, member)`.
template <typename Field, typename Run>
void visit_run(Field&& field, Run& run) {
  field("name", run.name);
  field("status", run.status);
  field("started_at", run.started_at);
  field("finished_at", run.finished_at);
  field("elapsed_s", run.elapsed_s);
  field("steps", run.steps);
  field("tokens", run.tokens);
  field("parameters", run.parameters);
  field("argv", run.argv);
  field("config_hash", run.config_hash);
  field("data_fingerprint", run.data_fingerprint);
  field("recipe", run.recipe);
  field("gemm_flops", run.gemm_flops);
}

template <typename Field, typename Precision>
void visit_precision(Field&& field, Precision& precision) {
  field("compute", precision.compute);
  field("master", precision.master);
  field("inference", precision.inference);
}

template <typename Field, typename Build>
void visit_build(Field&& field, Build& build) {
  field("commit", build.commit);
  field("version", build.version);
  field("compiler", build.compiler);
  field("type", build.type);
}

template <typename Field, typename Device>
void visit_device(Field&& field, Device& device) {
  field("backend", device.backend);
  field("name", device.name);
  field("cores", device.cores);
  field("memory_bytes", device.memory_bytes);
  field("planned_bytes", device.planned_bytes);
  field("used_bytes", device.used_bytes);
  field("isa", device.isa);
}

template <typename Field, typename Machine>
void visit_environment(Field&& field, Machine& environment) {
  field("os", environment.os);
  field("kernel", environment.kernel);
  field("hostname", environment.hostname);
}

template <typename Field, typename Plan>
void visit_plan(Field&& field, Plan& plan) {
  field("module", plan.module);
  field("pass", plan.pass);
  field("engine", plan.engine);
  field("desc", plan.desc);
  field("num_sites", plan.num_sites);
}

template <typename Field, typename Refused>
void visit_refused(Field&& field, Refused& refused) {
  field("engine", refused.engine);
  field("kind", refused.kind);
  field("reason", refused.reason);
}

// JSON has no NaN: a number that is not finite is left out.
struct Writer {
  OrderedJson& out;
  template <typename T>
  void operator()(const char* key, const T& value) const {
    if constexpr (std::is_same_v<T, double>) {
      if (!std::isfinite(value)) return;
    }
    out[key] = value;
  }
};

struct Reader {
  const Json& in;
  std::string_view origin;
  template <typename T>
  void operator()(const char* key, T& value) const {
    if (!in.contains(key)) return;
    try {
      in.at(key).get_to(value);
    } catch (const Json::exception&) {
      fail_corrupt("{}: key \"{}\" has the wrong type: {}", origin, key, json_excerpt(in.at(key)));
    }
  }
};

const Json& object_at(const Json& parent, const char* key, std::string_view origin) {
  static const Json empty = Json::object();
  if (!parent.contains(key)) return empty;
  if (!parent.at(key).is_object()) fail_corrupt("{}: key \"{}\" must be an object", origin, key);
  return parent.at(key);
}

template <typename Member>
Counts total(const std::map<std::string, ModuleCounts>& modules, Member member) {
  Counts sum;
  for (const auto& [module, counts] : modules)
    for (const auto& [name, calls] : counts.*member) sum[name] += calls;
  return sum;
}

OrderedJson plan_to_json(const std::vector<PlanFacts>& plan) {
  OrderedJson rows = OrderedJson::array();
  for (const PlanFacts& facts : plan) {
    OrderedJson row;
    visit_plan(Writer{row}, facts);
    row["refused"] = OrderedJson::array();
    for (const RefusedEngine& refused : facts.refused) {
      OrderedJson entry;
      visit_refused(Writer{entry}, refused);
      row["refused"].push_back(entry);
    }
    rows.push_back(row);
  }
  return rows;
}

const Json& array_at(const Json& parent, const char* key, std::string_view origin) {
  static const Json empty = Json::array();
  if (!parent.contains(key)) return empty;
  const Json& array = parent.at(key);
  const bool of_objects =
      array.is_array() && std::all_of(array.begin(), array.end(), [](const Json& entry) { return entry.is_object(); });
  if (!of_objects) fail_corrupt("{}: key \"{}\" must be a list of objects", origin, key);
  return array;
}

std::vector<PlanFacts> plan_from_json(const Json& document, std::string_view origin) {
  std::vector<PlanFacts> plan;
  for (const Json& row : array_at(document, "plan", origin)) {
    PlanFacts facts;
    visit_plan(Reader{row, origin}, facts);
    for (const Json& entry : array_at(row, "refused", origin)) {
      RefusedEngine refused;
      visit_refused(Reader{entry, origin}, refused);
      facts.refused.push_back(std::move(refused));
    }
    plan.push_back(std::move(facts));
  }
  return plan;
}

void check_total(const Json& document, const char* key, const Counts& expected, std::string_view origin) {
  Counts stated;
  Reader{document, origin}(key, stated);
  if (stated != expected)
    fail_corrupt("{}: \"{}\" is {}, but its modules add up to {}", origin, key, json_excerpt(Json(stated)),
                 json_excerpt(Json(expected)));
}

}  // namespace

Counts EvidenceRecord::engines() const { return total(modules, &ModuleCounts::engines); }
Counts EvidenceRecord::fallbacks() const { return total(modules, &ModuleCounts::fallbacks); }

std::string to_json(const EvidenceRecord& record) {
  OrderedJson out;
  out["version"] = kVersion;
  visit_run(Writer{out["run"]}, record.run);
  visit_precision(Writer{out["precision"]}, record.precision);
  visit_build(Writer{out["build"]}, record.build);
  visit_device(Writer{out["device"]}, record.device);
  out["libraries"] = record.libraries;
  visit_environment(Writer{out["environment"]}, record.environment);
  out["engines"] = record.engines();
  out["fallbacks"] = record.fallbacks();
  out["modules"] = OrderedJson::object();
  for (const auto& [module, counts] : record.modules)
    out["modules"][module] = {{"engines", counts.engines}, {"fallbacks", counts.fallbacks}};
  out["ops"] = record.ops;
  if (!record.kernels.empty()) out["kernels"] = record.kernels;
  if (record.kernel_window != KernelWindowFacts{})
    out["kernel_window"] = {{"step", record.kernel_window.step},
                            {"by_op", record.kernel_window.by_op},
                            {"differences", record.kernel_window.differences},
                            {"absent", record.kernel_window.absent}};
  out["plan"] = plan_to_json(record.plan);
  return out.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

EvidenceRecord parse_evidence(std::string_view json, std::string_view origin) {
  const Json document = parse_json(json, origin);
  if (!document.is_object()) fail_corrupt("{}: expected an object", origin);
  int version = 0;
  Reader{document, origin}("version", version);
  if (version < 1 || version > kVersion)
    fail_corrupt("{}: evidence version {}, this program reads 1 to {}", origin, version, kVersion);
  EvidenceRecord record;
  visit_run(Reader{object_at(document, "run", origin), origin}, record.run);
  visit_precision(Reader{object_at(document, "precision", origin), origin}, record.precision);
  visit_build(Reader{object_at(document, "build", origin), origin}, record.build);
  visit_device(Reader{object_at(document, "device", origin), origin}, record.device);
  visit_environment(Reader{object_at(document, "environment", origin), origin}, record.environment);
  const Reader reader{document, origin};
  reader("libraries", record.libraries);
  for (const auto& [module, counts] : object_at(document, "modules", origin).items()) {
    if (!counts.is_object()) fail_corrupt("{}: module \"{}\" must be an object", origin, module);
    Reader{counts, origin}("engines", record.modules[module].engines);
    Reader{counts, origin}("fallbacks", record.modules[module].fallbacks);
  }
  reader("ops", record.ops);
  reader("kernels", record.kernels);
  if (document.contains("kernel_window")) {
    const Reader window{object_at(document, "kernel_window", origin), origin};
    window("step", record.kernel_window.step);
    window("by_op", record.kernel_window.by_op);
    window("differences", record.kernel_window.differences);
    window("absent", record.kernel_window.absent);
  }
  record.plan = plan_from_json(document, origin);
  check_total(document, "engines", record.engines(), origin);
  check_total(document, "fallbacks", record.fallbacks(), origin);
  return record;
}

void write_evidence(const EvidenceRecord& record, const std::string& path) { write_file_atomic(path, to_json(record)); }

EvidenceRecord read_evidence(const std::string& path) { return parse_evidence(read_file(path), path); }

}  // namespace ida::evidence

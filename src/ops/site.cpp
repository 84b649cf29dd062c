#include "ops/site.h"

namespace ida::ops {
namespace {

template <typename Outer>
void bump(Outer& outer, std::string_view module, std::string_view key, std::int64_t n) {
  auto row = outer.find(module);
  if (row == outer.end()) row = outer.emplace(std::string(module), EngineCounters::CountByName{}).first;
  auto cell = row->second.find(key);
  if (cell == row->second.end()) cell = row->second.emplace(std::string(key), 0).first;
  cell->second += n;
}

template <typename Outer>
EngineCounters::CountByName sum_over_modules(const Outer& outer) {
  EngineCounters::CountByName total;
  for (const auto& [module, row] : outer)
    for (const auto& [key, n] : row) total[key] += n;
  return total;
}

}  // namespace

std::string_view module_name(Module module) {
  switch (module) {
    case Module::kQkv: return "qkv";
    case Module::kO: return "o";
    case Module::kGateUp: return "gate_up";
    case Module::kUp: return "up";
    case Module::kDown: return "down";
    case Module::kRouter: return "router";
    case Module::kExpert: return "expert";
    case Module::kHead: return "head";
  }
  return "?";
}

std::string_view pass_name(Pass pass) {
  switch (pass) {
    case Pass::kFprop: return "fprop";
    case Pass::kDgrad: return "dgrad";
    case Pass::kWgrad: return "wgrad";
  }
  return "?";
}

std::string_view refusal_kind_name(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::kNone: return "";
    case RefusalKind::kHardware: return "hardware";
    case RefusalKind::kBuild: return "build";
    case RefusalKind::kLibrary: return "library";
    case RefusalKind::kShape: return "shape";
    case RefusalKind::kDType: return "dtype";
    case RefusalKind::kNotPromoted: return "not_promoted";
    case RefusalKind::kSwitchedOff: return "switched_off";
  }
  return "?";
}

GemmDesc site_desc(const GemmSite& site, Pass pass, std::int64_t rows, const SiteDTypes& dtypes) {
  switch (pass) {
    case Pass::kFprop:
      return {.m = rows,
              .n = site.out_features,
              .k = site.in_features,
              .b_transposed = true,
              .has_bias = site.has_bias,
              .has_residual = site.adds_residual,
              .a_dtype = dtypes.activation,
              .b_dtype = dtypes.weight,
              .c_dtype = dtypes.activation};
    case Pass::kDgrad:
      return {.m = rows,
              .n = site.in_features,
              .k = site.out_features,
              .a_dtype = dtypes.activation,
              .b_dtype = dtypes.weight,
              .c_dtype = dtypes.activation};
    case Pass::kWgrad:
      return {.m = site.out_features,
              .n = site.in_features,
              .k = rows,
              .a_transposed = true,
              .accumulate = true,
              .a_dtype = dtypes.activation,
              .b_dtype = dtypes.activation,
              .c_dtype = dtypes.weight_grad};
  }
  return {};
}

void EngineCounters::count_call(std::string_view module, std::string_view engine, std::int64_t n) {
  bump(calls, module, engine, n);
}
void EngineCounters::count_fallback(std::string_view module, std::string_view reason, std::int64_t n) {
  bump(fallbacks, module, reason, n);
}
EngineCounters::CountByName EngineCounters::calls_by_engine() const { return sum_over_modules(calls); }
EngineCounters::CountByName EngineCounters::fallbacks_by_reason() const { return sum_over_modules(fallbacks); }

void EngineCounters::add(const EngineCounters& other) {
  for (const auto& [module, row] : other.calls)
    for (const auto& [engine, n] : row) bump(calls, module, engine, n);
  for (const auto& [module, row] : other.fallbacks)
    for (const auto& [reason, n] : row) bump(fallbacks, module, reason, n);
}

}  // namespace ida::ops

#include "precision/recipe.h"

#include <array>

#include "base/error.h"

namespace ida::precision {

Recipe recipe_by_name(const std::string& name) {
  if (name == "fp32") return {name, DType::kF32};
  if (name == "bf16") return {name, DType::kBF16};
  fail_gate("[precision] recipe '{}' has no implementation here; available: fp32, bf16", name);
}

namespace {

ops::Refusal refuse_emulated(const ops::GemmDesc&, const runtime::DeviceInfo&) {
  return {ops::RefusalKind::kSwitchedOff, "evidence.engine = \"native\""};
}
ops::Refusal refuse_native(const ops::GemmDesc&, const runtime::DeviceInfo&) {
  return {ops::RefusalKind::kSwitchedOff, "evidence.engine = \"emulated\""};
}

// The list with what the policy forbids refusing. f32 has no emulated form: its native engines stay.
ops::GemmImplList allowed(ops::GemmImplList impls, EnginePolicy policy, DType compute) {
  for (auto& impl : impls) {
    if (policy == EnginePolicy::kNative && impl.kind == ops::EngineKind::kEmulated && compute != DType::kF32)
      impl.supports = refuse_emulated;
    if (policy == EnginePolicy::kEmulated && impl.kind == ops::EngineKind::kNative && compute != DType::kF32)
      impl.supports = refuse_native;
  }
  return impls;
}

}  // namespace

ops::SitePlan build_site_plan(const Recipe& recipe, std::vector<ops::GemmSite> sites, const ops::GemmImplList& impls,
                              const runtime::DeviceInfo& device, EnginePolicy policy) {
  const ops::GemmImplList list = allowed(impls, policy, recipe.compute);
  const ops::SiteDTypes dtypes{.activation = recipe.compute, .weight = recipe.compute, .weight_grad = DType::kF32};
  ops::SitePlan plan{.recipe = recipe.name, .sites = std::move(sites), .rows = {}};
  for (const ops::GemmSite& site : plan.sites) {
    std::array<ops::SitePlanRow, ops::kNumPasses> passes;
    for (const ops::Pass pass : {ops::Pass::kFprop, ops::Pass::kDgrad, ops::Pass::kWgrad}) {
      ops::SitePlanRow& row = passes[static_cast<std::size_t>(pass)];
      row.desc = ops::site_desc(site, pass, site.rows, dtypes);
      row.engine = ops::choose(list, row.desc, device, site.name, &row.refused).name;
    }
    plan.rows.push_back(std::move(passes));
  }
  return plan;
}

}  // namespace ida::precision

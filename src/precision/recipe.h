// Precision recipes and their resolution: recipe + sites + implementation list + device -> one plan row per site and pass.
#pragma once
#include <string>
#include <vector>

#include "ops/site.h"

namespace ida::precision {

// `compute` is the type of weights and activations in memory; masters, gradients and sums are f32.
struct Recipe {
  std::string name;
  DType compute = DType::kF32;
};

// "fp32" or "bf16"; any other name is refused (exit kGate) with the list of those there are.
Recipe recipe_by_name(const std::string& name);

// Which engines a run may use: whichever comes first, native ones alone, or emulated ones for every format below f32.
enum class EnginePolicy : std::uint8_t { kEither, kNative, kEmulated };

// Pure: depends on nothing but its arguments. Throws (kGate) where no implementation takes a site.
ops::SitePlan build_site_plan(const Recipe& recipe, std::vector<ops::GemmSite> sites, const ops::GemmImplList& impls,
                              const runtime::DeviceInfo& device, EnginePolicy policy = EnginePolicy::kEither);

}  // namespace ida::precision

// GEMM sites: every matrix product of the model has a name, a role and a plan row; nothing multiplies outside them.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/gemm.h"
#include "ops/impl_list.h"

namespace ida::ops {

// Role of a linear map in the decoder. Fused maps (q|k|v, gate|up) carry the role of the fused storage.
enum class Module : std::uint8_t { kQkv, kO, kGateUp, kUp, kDown, kRouter, kExpert, kHead };
std::string_view module_name(Module module);  // "qkv", "o", "gate_up", ...

enum class Pass : std::uint8_t { kFprop, kDgrad, kWgrad };
inline constexpr int kNumPasses = 3;
std::string_view pass_name(Pass pass);  // "fprop", "dgrad", "wgrad"

using SiteId = std::int32_t;

// One linear map y = x W^T of the model, as the model declares it.
struct GemmSite {
  std::string name;  // "layers.3.self_attn.qkv_proj", "lm_head"
  Module module = Module::kQkv;
  std::int32_t layer = -1;  // -1 outside the layers
  std::int64_t rows = 0;    // rows of x per call at the planned micro-batch
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool has_bias = false;
  bool adds_residual = false;  // fprop adds the residual stream to y
};

// What a (site, pass) resolved to.
struct SitePlanRow {
  GemmDesc desc;
  std::string_view engine;             // implementation name
  std::vector<RefusalRecord> refused;  // implementations passed over and why
};

struct SitePlan {
  std::string recipe;  // "fp32", "bf16"
  std::vector<GemmSite> sites;
  std::vector<std::array<SitePlanRow, kNumPasses>> rows;  // [site][pass]
};

// Types of a site's operands: activations and their gradients, weights, weight gradients.
struct SiteDTypes {
  DType activation = DType::kF32;
  DType weight = DType::kF32;
  DType weight_grad = DType::kF32;
};

// The desc of one pass of a site: fprop y[m,out] = x W^T (+ b); dgrad dx[m,in] = dy W; wgrad dW[out,in] += dy^T x.
GemmDesc site_desc(const GemmSite& site, Pass pass, std::int64_t rows, const SiteDTypes& dtypes);

// Calls per engine and fallbacks per reason, by module; the record behind evidence.json.
struct EngineCounters {
  using CountByName = std::map<std::string, std::int64_t, std::less<>>;
  std::map<std::string, CountByName, std::less<>> calls;      // module -> engine -> calls
  std::map<std::string, CountByName, std::less<>> fallbacks;  // module -> reason -> calls
  void count_call(std::string_view module, std::string_view engine, std::int64_t n = 1);
  void count_fallback(std::string_view module, std::string_view reason, std::int64_t n = 1);
  CountByName calls_by_engine() const;
  CountByName fallbacks_by_reason() const;
  void add(const EngineCounters& other);
};

}  // namespace ida::ops

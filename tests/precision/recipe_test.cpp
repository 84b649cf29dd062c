#include "precision/recipe.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "model/sites.h"

namespace ida::precision {
namespace {

model::ModelConfig small() {
  model::ModelConfig c;
  c.vocab_size = 64;
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.layer_window = {0, 0};
  return c;
}

runtime::DeviceInfo device_without_amx() {
  runtime::DeviceInfo device;
  device.cpu.avx2 = true;
  return device;
}

ops::SitePlan plan(const std::string& recipe, EnginePolicy policy) {
  const runtime::DeviceInfo device = device_without_amx();
  return build_site_plan(recipe_by_name(recipe), model::gemm_sites(small(), 64, 32), cpu::gemm_impls(device), device,
                         policy);
}

TEST(Recipe, UnknownNamesAreRefusedWithThoseThereAre) {
  try {
    recipe_by_name("nvfp4_plain");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kGate);
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos);
  }
}

TEST(SitePlan, EverySiteAndPassHasARow) {
  const ops::SitePlan p = plan("fp32", EnginePolicy::kEither);
  ASSERT_EQ(p.sites.size(), 9u);  // 2 layers of 4, the head
  ASSERT_EQ(p.rows.size(), p.sites.size());
  EXPECT_EQ(p.sites.back().name, "lm_head");
  EXPECT_EQ(p.sites.back().rows, 32);
  for (std::size_t i = 0; i < p.sites.size(); ++i) {
    const ops::GemmSite& site = p.sites[i];
    EXPECT_FALSE(p.rows[i][0].engine.empty());
    EXPECT_EQ(p.rows[i][0].desc.n, site.out_features);
    EXPECT_EQ(p.rows[i][1].desc.n, site.in_features);
    EXPECT_EQ(p.rows[i][2].desc.k, site.rows);
    EXPECT_TRUE(p.rows[i][2].desc.accumulate);
  }
}

// A bf16 product without bf16 units is not a native one, and says so.
TEST(SitePlan, Bf16WithoutAmxIsWidenedByName) {
  const ops::SitePlan p = plan("bf16", EnginePolicy::kEither);
  EXPECT_EQ(p.rows[0][0].engine, "cpu.blocked.bf16_widened");
  ASSERT_FALSE(p.rows[0][0].refused.empty());
  EXPECT_EQ(p.rows[0][0].refused[0].impl, "cpu.onednn.bf16");
}

TEST(SitePlan, NativePolicyRefusesWidenedBf16) {
  try {
    plan("bf16", EnginePolicy::kNative);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kGate);
    EXPECT_NE(std::string(error.what()).find("cpu.blocked.bf16_widened"), std::string::npos);
  }
}

TEST(SitePlan, PoliciesLeaveF32Alone) {
  const std::string_view either = plan("fp32", EnginePolicy::kEither).rows[0][0].engine;
  EXPECT_EQ(plan("fp32", EnginePolicy::kNative).rows[0][0].engine, either);
  EXPECT_EQ(plan("fp32", EnginePolicy::kEmulated).rows[0][0].engine, either);
}

}  // namespace
}  // namespace ida::precision

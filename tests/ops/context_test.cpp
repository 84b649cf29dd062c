// How ops are chosen, counted and refused, with made-up implementations.
#include "ops/context.h"

#include <gtest/gtest.h>

#include <vector>

namespace ida::ops {
namespace {

int calls_of_picky = 0;
int calls_of_total = 0;

Refusal refuse_small(const GemmDesc& desc, const runtime::DeviceInfo&) {
  if (desc.m < 8) return {RefusalKind::kShape, "fewer than 8 rows"};
  return kAccepted;
}
Refusal accept(const GemmDesc&, const runtime::DeviceInfo&) { return kAccepted; }
Refusal refuse_hardware(const GemmDesc&, const runtime::DeviceInfo&) { return {RefusalKind::kHardware, "no such unit"}; }
std::int64_t hundred_bytes(const GemmDesc&, const runtime::DeviceInfo&) { return 100; }
void run_picky(const GemmDesc&, const GemmArgs&, const Launch& launch) {
  ++calls_of_picky;
  EXPECT_EQ(launch.workspace.size(), 100u);
}
void run_total(const GemmDesc&, const GemmArgs&, const Launch&) { ++calls_of_total; }

class ContextTest : public ::testing::Test {
 protected:
  ContextTest() : memory_(1 << 16), arena_(aligned(), 1 << 15), context_(device_, backend_, arena_) {
    calls_of_picky = calls_of_total = 0;
    backend_.gemm = {{"absent", refuse_hardware, nullptr, run_total},
                     {"picky", refuse_small, hundred_bytes, run_picky},
                     {"total", accept, nullptr, run_total}};
    const GemmSite site{
        .name = "layers.0.o", .module = Module::kO, .layer = 0, .rows = 16, .in_features = 4, .out_features = 6};
    plan_.sites = {site};
    plan_.rows.emplace_back();
    for (const Pass pass : {Pass::kFprop, Pass::kDgrad, Pass::kWgrad}) {
      SitePlanRow& row = plan_.rows[0][static_cast<std::size_t>(pass)];
      row.desc = site_desc(site, pass, 16, {});
      row.engine = choose(backend_.gemm, row.desc, device_, "o", &row.refused).name;
    }
    context_.site_plan = &plan_;
  }

  std::byte* aligned() {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (256 - at % 256) % 256;
  }
  GemmArgs fprop(std::int64_t rows) {
    return {.a = matrix_view(aligned(), DType::kF32, rows, 4),
            .b = matrix_view(aligned(), DType::kF32, 6, 4),
            .c = matrix_view(aligned(), DType::kF32, rows, 6),
            .bias = {}};
  }

  std::vector<std::byte> memory_;
  runtime::DeviceInfo device_;
  Backend backend_;
  runtime::Arena arena_;
  SitePlan plan_;
  Context context_;
};

TEST_F(ContextTest, PlanRecordsWhoRefusedAndWhy) {
  const SitePlanRow& row = plan_.rows[0][0];
  EXPECT_EQ(row.engine, "picky");
  ASSERT_EQ(row.refused.size(), 1u);
  EXPECT_EQ(row.refused[0].impl, "absent");
  EXPECT_EQ(row.refused[0].refusal.kind, RefusalKind::kHardware);
  EXPECT_EQ(row.refused[0].refusal.reason, "no such unit");
}

// A dry run notes what is to be timed before the first step; timing is no ground for bits that must repeat.
TEST_F(ContextTest, NothingIsTimedWhereBitsMustRepeat) {
  for (auto& impl : backend_.gemm) impl.prepare = run_total;
  for (const bool deterministic : {false, true}) {
    runtime::Arena dry;
    Context planned(device_, backend_, dry);
    planned.site_plan = &plan_;
    planned.deterministic = deterministic;
    gemm(planned, 0, Pass::kFprop, fprop(16));
    EXPECT_EQ(planned.preparations.size(), deterministic ? 0u : 1u);
  }
}

TEST_F(ContextTest, PlannedEngineRunsAndIsCounted) {
  gemm(context_, 0, Pass::kFprop, fprop(16));
  EXPECT_EQ(calls_of_picky, 1);
  EXPECT_EQ(context_.calls.gemms.calls_by_engine(), (EngineCounters::CountByName{{"picky", 1}}));
  EXPECT_TRUE(context_.calls.gemms.fallbacks.empty());
  EXPECT_EQ(context_.calls.gemm_flops, 2.0 * 16 * 4 * 6);
  EXPECT_EQ(arena_.used_bytes(), 0);  // the workspace was given back
}

TEST_F(ContextTest, FallbackIsCountedWithItsReason) {
  gemm(context_, 0, Pass::kFprop, fprop(3));
  EXPECT_EQ(calls_of_total, 1);
  EXPECT_EQ(context_.calls.gemms.calls.at("o").at("total"), 1);
  EXPECT_EQ(context_.calls.gemms.fallbacks.at("o").at("fewer than 8 rows"), 1);
}

TEST_F(ContextTest, FallbackCanBeAnError) {
  context_.fallback_is_error = true;
  try {
    gemm(context_, 0, Pass::kFprop, fprop(3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kGate);
    EXPECT_NE(std::string(error.what()).find("fewer than 8 rows"), std::string::npos);
  }
  EXPECT_EQ(calls_of_total, 0);
}

TEST_F(ContextTest, NobodyLeftNamesEveryReason) {
  backend_.gemm.pop_back();
  try {
    gemm(context_, 0, Pass::kFprop, fprop(3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kGate);
    EXPECT_NE(std::string(error.what()).find("no such unit"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("fewer than 8 rows"), std::string::npos);
  }
}

TEST_F(ContextTest, WrongShapeIsNamedBeforeAnythingRuns) {
  GemmArgs args = fprop(16);
  args.c.cols = 5;
  try {
    gemm(context_, 0, Pass::kFprop, args);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layers.0.o"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("[16, 6]"), std::string::npos);
  }
  EXPECT_EQ(calls_of_picky, 0);
}

TEST_F(ContextTest, DryRunCountsAndMeasuresButRunsNothing) {
  runtime::Arena dry;
  Context context(device_, backend_, dry);
  context.site_plan = &plan_;
  gemm(context, 0, Pass::kFprop, fprop(16));
  EXPECT_EQ(calls_of_picky, 0);
  EXPECT_EQ(context.calls.gemms.calls.at("o").at("picky"), 1);
  EXPECT_EQ(dry.high_water_bytes(), 256);  // 100 bytes of workspace, aligned
}

TEST(EngineCounters, AddSumsByModule) {
  EngineCounters a;
  a.count_call("q", "x", 2);
  a.count_fallback("q", "why");
  EngineCounters b;
  b.count_call("q", "x");
  b.count_call("o", "y", 5);
  a.add(b);
  EXPECT_EQ(a.calls_by_engine(), (EngineCounters::CountByName{{"x", 3}, {"y", 5}}));
  EXPECT_EQ(a.fallbacks_by_reason(), (EngineCounters::CountByName{{"why", 1}}));
}

}  // namespace
}  // namespace ida::ops

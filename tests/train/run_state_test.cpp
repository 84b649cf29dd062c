#include "train/run_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ida::train {
namespace {

RunState some_state() {
  RunState s;
  s.step = 17;
  s.updates = 15;
  s.tokens = 1234567890123;
  s.skipped = 2;
  s.rollbacks = 1;
  s.seed = 0xFFFFFFFFFFFFFFFFull;
  s.cursor = {.epoch = 3, .row = 41};
  s.data_plan_hash = "abc";
  s.elapsed_s = 1.0 / 3.0;
  s.gate_window = {3.0000000000000004, 0.1, 2.5};
  s.counters.count_call("qkv", "cpu.blocked.f32", 9);
  s.counters.count_fallback("o", "shape", 2);
  s.op_calls["rope/cpu.vector"] = 4;
  s.gemm_flops = 1e15;
  return s;
}

// The checkpoint room adds the step to what the state writes.
std::string with_step(const RunState& s) {
  nlohmann::json json = nlohmann::json::parse(write_run_state(s));
  json["step"] = s.step;
  return json.dump();
}

TEST(RunState, RoundTripsExactly) {
  const RunState a = some_state();
  const RunState b = parse_run_state(with_step(a), "state.json");
  EXPECT_EQ(b.step, a.step);
  EXPECT_EQ(b.updates, a.updates);
  EXPECT_EQ(b.tokens, a.tokens);
  EXPECT_EQ(b.skipped, a.skipped);
  EXPECT_EQ(b.rollbacks, a.rollbacks);
  EXPECT_EQ(b.seed, a.seed);
  EXPECT_EQ(b.cursor, a.cursor);
  EXPECT_EQ(b.data_plan_hash, a.data_plan_hash);
  EXPECT_EQ(b.elapsed_s, a.elapsed_s);
  EXPECT_EQ(b.gate_window, a.gate_window);
  EXPECT_EQ(b.counters.calls, a.counters.calls);
  EXPECT_EQ(b.counters.fallbacks, a.counters.fallbacks);
  EXPECT_EQ(b.op_calls, a.op_calls);
  EXPECT_EQ(b.gemm_flops, a.gemm_flops);
}

TEST(RunState, EveryKeyIsNeeded) {
  const nlohmann::json whole = nlohmann::json::parse(with_step(some_state()));
  for (const auto& [key, value] : whole.items()) {
    nlohmann::json part = whole;
    part.erase(key);
    try {
      parse_run_state(part.dump(), "here/state.json");
      ADD_FAILURE() << "accepted without " << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("here/state.json"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ida::train

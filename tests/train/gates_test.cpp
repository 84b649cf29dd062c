#include "train/gates.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ida::train {
namespace {

StepGate filled(double sigma, std::size_t n) {
  StepGate gate(sigma);
  for (std::size_t i = 0; i < n; ++i)
    EXPECT_EQ(gate.judge(3.0 + 0.1 * (i % 2 == 0 ? 1.0 : -1.0), true), GateVerdict::kApply);
  return gate;
}

TEST(StepGate, NonFiniteIsCaughtFromTheFirstStepAndCostsOneStep) {
  StepGate gate(6.0);
  EXPECT_EQ(gate.judge(std::nan(""), false), GateVerdict::kNonFinite);
  EXPECT_TRUE(gate.window().empty());
  EXPECT_EQ(gate.judge(3.0, true), GateVerdict::kApply);
  EXPECT_EQ(gate.window().size(), 1u);
}

TEST(StepGate, SpikeNeedsSixtyFourLosses) {
  StepGate early = filled(6.0, StepGate::kMinimum - 1);
  EXPECT_EQ(early.judge(100.0, true), GateVerdict::kApply);
  StepGate gate = filled(6.0, StepGate::kMinimum);
  EXPECT_EQ(gate.judge(3.0 + 0.1 * 6.1, true), GateVerdict::kSpike);  // deviation is 0.1
  EXPECT_EQ(gate.judge(3.0 + 0.1 * 5.9, true), GateVerdict::kApply);
}

TEST(StepGate, SkippedLossesStayOut) {
  StepGate gate = filled(6.0, 80);
  const auto before = gate.window();
  EXPECT_EQ(gate.judge(50.0, true), GateVerdict::kSpike);
  EXPECT_EQ(gate.window(), before);
}

TEST(StepGate, WindowIsBoundedAndRestorable) {
  StepGate gate = filled(6.0, 300);
  EXPECT_EQ(gate.window().size(), StepGate::kWindow);
  StepGate other(6.0);
  other.restore(gate.window());
  EXPECT_EQ(other.judge(9.0, true), GateVerdict::kSpike);
}

TEST(StepGate, ZeroSigmaTurnsTheRuleOff) {
  StepGate gate = filled(0.0, 100);
  EXPECT_EQ(gate.judge(1e9, true), GateVerdict::kApply);
}

}  // namespace
}  // namespace ida::train

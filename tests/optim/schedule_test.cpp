#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace ida::optim {
namespace {

Schedule schedule(ScheduleKind kind) {
  return {.kind = kind, .peak_lr = 1.0, .min_lr_frac = 0.1, .warmup_steps = 10, .wsd_decay_frac = 0.2, .total_steps = 110};
}

TEST(Schedule, WarmUpIsLinearAndReachesThePeak) {
  for (const auto kind : {ScheduleKind::kWsd, ScheduleKind::kCosine, ScheduleKind::kLinear, ScheduleKind::kConstant}) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 1), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 5), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 10), 1.0);
  }
}

TEST(Schedule, EndsAtTheMinimum) {
  for (const auto kind : {ScheduleKind::kWsd, ScheduleKind::kCosine, ScheduleKind::kLinear})
    EXPECT_NEAR(learning_rate(schedule(kind), 110), 0.1, 1e-12);
  EXPECT_EQ(learning_rate(schedule(ScheduleKind::kConstant), 110), 1.0);
}

TEST(Schedule, Shapes) {
  EXPECT_NEAR(learning_rate(schedule(ScheduleKind::kCosine), 60), 0.55, 1e-12);  // half way
  EXPECT_NEAR(learning_rate(schedule(ScheduleKind::kLinear), 60), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(schedule(ScheduleKind::kCosine), 35), 0.1 + 0.9 * 0.8535533905932737, 1e-12);
  EXPECT_NEAR(learning_rate(schedule(ScheduleKind::kLinear), 35), 0.775, 1e-12);
  EXPECT_EQ(learning_rate(schedule(ScheduleKind::kWsd), 88), 1.0);  // decay covers the last 22 of 110
  EXPECT_NEAR(learning_rate(schedule(ScheduleKind::kWsd), 99), 0.55, 1e-12);
}

TEST(Schedule, WithoutWarmUpTheFirstUpdateIsAtThePeak) {
  Schedule s = schedule(ScheduleKind::kConstant);
  s.warmup_steps = 0;
  EXPECT_EQ(learning_rate(s, 1), 1.0);
}

}  // namespace
}  // namespace ida::optim

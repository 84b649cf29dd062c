// Learning-rate schedules: a pure function of the update's number, so a resumed run cannot be off by one.
#pragma once
#include <cstdint>

namespace ida::optim {

enum class ScheduleKind : std::uint8_t { kWsd, kCosine, kLinear, kConstant };

struct Schedule {
  ScheduleKind kind = ScheduleKind::kWsd;
  double peak_lr = 3e-4;
  double min_lr_frac = 0.1;  // of peak_lr, reached at the last update (not for constant)
  std::int64_t warmup_steps = 0;
  double wsd_decay_frac = 0.2;  // share of all updates over which wsd falls, linearly
  std::int64_t total_steps = 1;
};

// lr of update `step` in 1..total_steps. Warm-up: peak * step / warmup_steps. Then wsd: peak until the last
// wsd_decay_frac of the run, then linear; cosine and linear: from peak at the end of warm-up to min at the last update.
double learning_rate(const Schedule& schedule, std::int64_t step);

}  // namespace ida::optim

#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ida::optim {

double learning_rate(const Schedule& s, std::int64_t step) {
  if (step <= s.warmup_steps) return s.peak_lr * static_cast<double>(step) / static_cast<double>(s.warmup_steps);
  if (s.kind == ScheduleKind::kConstant) return s.peak_lr;
  std::int64_t begin = s.warmup_steps;
  if (s.kind == ScheduleKind::kWsd) {
    const auto decay_steps = static_cast<std::int64_t>(std::llround(s.wsd_decay_frac * static_cast<double>(s.total_steps)));
    begin = std::max(begin, s.total_steps - decay_steps);
  }
  if (step <= begin) return s.peak_lr;
  const double span = static_cast<double>(std::max<std::int64_t>(s.total_steps - begin, 1));
  const double progress = std::min(1.0, static_cast<double>(step - begin) / span);
  const double remaining =
      s.kind == ScheduleKind::kCosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) : 1.0 - progress;
  return s.peak_lr * (s.min_lr_frac + (1.0 - s.min_lr_frac) * remaining);
}

}  // namespace ida::optim

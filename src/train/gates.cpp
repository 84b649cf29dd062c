#include "train/gates.h"

#include <cmath>
#include <numeric>

namespace ida::train {

GateVerdict StepGate::judge(double loss, bool finite) {
  if (!finite) return GateVerdict::kNonFinite;
  if (spike_sigma_ > 0.0 && window_.size() >= kMinimum) {
    const auto n = static_cast<double>(window_.size());
    const double mean = std::accumulate(window_.begin(), window_.end(), 0.0) / n;
    double squares = 0.0;
    for (const double x : window_) squares += (x - mean) * (x - mean);
    if (loss > mean + spike_sigma_ * std::sqrt(squares / n)) return GateVerdict::kSpike;
  }
  window_.push_back(loss);
  if (window_.size() > kWindow) window_.pop_front();
  return GateVerdict::kApply;
}

}  // namespace ida::train

// Gates that look at a step before its update is applied: non-finite values and loss spikes.
//
// Spike rule: the loss exceeds mean + sigma * deviation of the last 128 accepted losses, once 64 are held. Losses of
// skipped steps stay out of the window, so one bad step costs one step. The window is part of a checkpoint.
#pragma once
#include <cstdint>
#include <deque>

namespace ida::train {

enum class GateVerdict : std::uint8_t { kApply, kNonFinite, kSpike };

class StepGate {
 public:
  // spike_sigma <= 0 turns the spike rule off.
  explicit StepGate(double spike_sigma) : spike_sigma_(spike_sigma) {}

  // Judges a step and, when it is to be applied, takes its loss into the window.
  GateVerdict judge(double loss, bool finite);

  const std::deque<double>& window() const { return window_; }
  void restore(std::deque<double> window) { window_ = std::move(window); }

  static constexpr std::size_t kWindow = 128;
  static constexpr std::size_t kMinimum = 64;

 private:
  double spike_sigma_;
  std::deque<double> window_;
};

}  // namespace ida::train

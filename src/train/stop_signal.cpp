#include "train/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <array>

#include "base/error.h"

namespace ida::train {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1};
volatile sig_atomic_t stop_requested = 0;
std::array<struct sigaction, kSignals.size()> former_actions;

void on_signal(int number) {
  if (stop_requested != 0) _exit(128 + number);
  stop_requested = 1;
}

}  // namespace

StopSignal::StopSignal() {
  stop_requested = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a write to a log must not fail because of a polite request
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &former_actions[i]);
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_actions[i], nullptr);
}

bool StopSignal::requested() { return stop_requested != 0; }

void StopSignal::throw_if_requested() {
  if (requested()) throw Error(ExitCode::kStopped, "stopped by a signal before training began; nothing to save");
}

}  // namespace ida::train

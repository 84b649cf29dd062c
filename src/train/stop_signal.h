// SIGTERM, SIGINT and SIGUSR1 ask a run to save and exit with code 75; a second one ends the process at once.
#pragma once

namespace ida::train {

// Installs the handlers for the life of the object; one at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  static bool requested();
  // Throws Error(kStopped) when a stop was requested: for places where there is nothing to save yet.
  static void throw_if_requested();
};

}  // namespace ida::train

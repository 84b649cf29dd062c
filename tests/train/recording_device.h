// A processor that records like a GPU, for tests of what is counted: the driver's records of its replays included.
#pragma once
#include <memory>
#include <string>

#include "backend/cpu/cpu_device.h"

namespace ida::train {

// Every recording launches these.
inline const runtime::KernelCountsByOp kKernelsOfARecording = {{"gemm/some", {{"kernel_a", 2}}},
                                                               {"rope/own", {{"kernel_a", 1}, {"kernel_b", 3}}}};

class RecordingDevice : public cpu::CpuDevice {
 public:
  bool can_record() const override { return true; }
  // As on a GPU, what is recorded does not count as run; only a replay does. The processor has done it all the same, so
  // numbers hold at best until the first replay.
  std::unique_ptr<runtime::Recording> record(const std::function<void()>& enqueue) override {
    ++recordings;
    const int before = runs;
    enqueue();
    runs = before;
    return std::make_unique<Recorded>();
  }
  void replay(const runtime::Recording& /*recording*/) override {
    ++runs;
    for (const auto& [op, counts] : kKernelsOfARecording)
      for (const auto& [name, launches] : counts) seen_[name].launches += launches;
  }
  bool start_kernel_window(std::string& reason) override {
    reason = no_window;
    if (!reason.empty()) return false;
    ++windows;
    seen_.clear();
    return true;
  }
  runtime::KernelTotals stop_kernel_window() override {
    seen_.erase(unseen);
    return seen_;
  }

  int recordings = 0;
  int runs = 0;           // replays, and what a test counts itself
  int windows = 0;        // of the driver's records
  std::string no_window;  // why there are none
  std::string unseen;     // a kernel that is missing in them

 private:
  struct Recorded : runtime::Recording {
    const runtime::KernelCountsByOp& kernels() const override { return kKernelsOfARecording; }
  };
  runtime::KernelTotals seen_;
};

}  // namespace ida::train

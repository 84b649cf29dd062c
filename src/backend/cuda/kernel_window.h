// Which kernels ran, and how often, between two moments, from CUPTI's activity records (kernels of replayed graphs
// included). The proof beside our own counters.
#pragma once
#include <string>
#include <string_view>

#include "runtime/device.h"

namespace ida::cuda {

// A kernel's name for people: demangled, without return type, parameters and anonymous namespaces; template arguments
// longer than 96 characters are written <...>.
std::string kernel_name(const char* symbol);

// One window at a time in a process; start and stop in one thread, with the device idle at both.
class KernelWindow {
 public:
  KernelWindow() = default;
  ~KernelWindow();
  KernelWindow(const KernelWindow&) = delete;
  KernelWindow& operator=(const KernelWindow&) = delete;

  // Throws Error(kRuntime) with the reason where CUPTI is absent, refuses, or another window is open.
  void start();
  // By kernel_name since start. Throws Error(kRuntime) where CUPTI dropped records.
  runtime::KernelTotals stop();

 private:
  bool open_ = false;
};

}  // namespace ida::cuda

// One run writes a folder at a time. The lock is the kernel's, on an open file: it ends with the process, however that
// ends, so a lock left by a killed run never blocks the next one.
#pragma once
#include <string>

namespace ida::checkpoint {

class RunLock {
 public:
  // Takes the lock of `run_dir` (created when missing) or throws kRuntime at once, naming the holder's process.
  explicit RunLock(const std::string& run_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace ida::checkpoint

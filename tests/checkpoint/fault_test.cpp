// Every k-th file operation of a save fails, is torn, or kills the process: the last good checkpoint survives.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/store.h"
#include "checkpoint/temp_dir.h"
#include "checkpoint/tiny_checkpoint.h"

namespace ida::checkpoint {
namespace {

enum class Fault { kNone, kFail, kFailFromThenOn, kTear, kKill };

struct FaultPlan {
  Fault fault = Fault::kNone;
  int at = 0;       // operation number, from 1
  int num_ops = 0;  // operations so far
  int error = EIO;
};
FaultPlan plan;

// True when this operation must not happen.
bool faulted() {
  ++plan.num_ops;
  const bool hit = plan.num_ops == plan.at || (plan.fault == Fault::kFailFromThenOn && plan.num_ops > plan.at);
  if (plan.fault == Fault::kNone || !hit) return false;
  if (plan.fault == Fault::kKill) ::_exit(9);
  errno = plan.error;
  return true;
}

ssize_t faulty_write(int fd, const void* data, std::size_t size) {
  if (!faulted()) return system_file_ops().write(fd, data, size);
  if (plan.fault != Fault::kTear) return -1;
  const ssize_t half = system_file_ops().write(fd, data, size / 2);  // half reaches the disk, then the process dies
  (void)half;
  ::_exit(9);
}

const FileOps kFaultyOps = {
    .open = [](const char* path, int flags,
               mode_t mode) { return faulted() ? -1 : system_file_ops().open(path, flags, mode); },
    .read = [](int fd, void* data, std::size_t size) { return system_file_ops().read(fd, data, size); },
    .write = faulty_write,
    // A killed process leaves the page cache intact: syncing is counted, and left out for speed.
    .fsync = [](int /*fd*/) { return faulted() ? -1 : 0; },
    .close = [](int fd) { return system_file_ops().close(fd); },
    .map = [](int fd, std::size_t size) { return system_file_ops().map(fd, size); },
    .unmap = [](void* data, std::size_t size) { return system_file_ops().unmap(data, size); },
    .rename = [](const char* from, const char* to) { return faulted() ? -1 : system_file_ops().rename(from, to); },
    .unlink = [](const char* path) { return faulted() ? -1 : system_file_ops().unlink(path); },
    .symlink = [](const char* target,
                  const char* path) { return faulted() ? -1 : system_file_ops().symlink(target, path); },
    .mkdir = [](const char* path, mode_t mode) { return faulted() ? -1 : system_file_ops().mkdir(path, mode); },
    .rmdir = [](const char* path) { return faulted() ? -1 : system_file_ops().rmdir(path); },
};

// Saves step 2 after a good step 1 (or over an older step 2), then applies retention.
void save_second(const std::string& dir) {
  CheckpointStore store(dir);
  store.save(TinyState(2).contents());
  store.apply_retention({.keep_last = 1}, 2, "run-a");
}

// The faulty table for as long as the object lives; without a plan it only counts.
class FaultyOps {
 public:
  FaultyOps() : old_(replace_file_ops(kFaultyOps)) { plan = {}; }
  ~FaultyOps() { replace_file_ops(old_); }
  FaultyOps(const FaultyOps&) = delete;
  FaultyOps& operator=(const FaultyOps&) = delete;

 private:
  FileOps old_;
};

// Operations of save_second in a folder that already holds these steps.
int count_operations(std::initializer_list<int> steps) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  for (const int step : steps) store.save(TinyState(step).contents());
  plan = {};
  save_second(dir.path());
  return plan.num_ops;
}

// A resume after the fault finds a complete checkpoint whose bits are those of its step, and can save again.
void expect_recoverable(const std::string& dir, const std::string& what) {
  CheckpointStore store(dir);
  std::vector<std::string> report;
  const auto newest = find_newest_complete(dir, report);
  ASSERT_TRUE(newest.has_value()) << what;
  EXPECT_TRUE(report.empty()) << what << ": " << report.front();  // nothing incomplete is ever named step-N
  const Checkpoint stored = open_checkpoint(*newest);
  EXPECT_TRUE(holds(stored, TinyState(stored.manifest().step).contents())) << what;
  const std::string latest = dir + "/latest";
  ASSERT_TRUE(is_directory(latest)) << what;
  EXPECT_LE(open_checkpoint(latest).manifest().step, stored.manifest().step) << what;
  store.save(TinyState(3).contents());
  EXPECT_TRUE(holds(open_checkpoint(latest), TinyState(3).contents())) << what;
  for (const std::string& name : list_directory(dir)) EXPECT_FALSE(name.starts_with('.')) << what << ": " << name;
}

void run_with_fault(const std::string& dir, Fault fault, int at, int error) {
  plan = {.fault = fault, .at = at, .error = error};
  try {
    save_second(dir);
  } catch (const Error& failure) {
    EXPECT_EQ(static_cast<int>(failure.code()), static_cast<int>(ExitCode::kRuntime)) << failure.what();
  }
  plan = {};
}

// Runs save_second in a child process that dies at the given operation.
void run_killed(const std::string& dir, Fault fault, int at) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    run_with_fault(dir, fault, at, EIO);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST(Fault, EveryOperationMayFail) {
  const FaultyOps ops;
  const int num_ops = count_operations({1});
  ASSERT_GT(num_ops, 30);
  for (int at = 1; at <= num_ops; ++at) {
    for (const auto& [fault, error] : {std::pair{Fault::kFail, EIO}, std::pair{Fault::kFailFromThenOn, ENOSPC}}) {
      const TempDir dir;
      CheckpointStore(dir.path()).save(TinyState(1).contents());
      run_with_fault(dir.path(), fault, at, error);
      expect_recoverable(dir.path(), fmt::format("operation {} of {}, error {}", at, num_ops, error));
    }
  }
}

TEST(Fault, EveryOperationMayBeTheLast) {
  const FaultyOps ops;
  const int num_ops = count_operations({1});
  for (int at = 1; at <= num_ops; ++at) {
    for (const Fault fault : {Fault::kKill, Fault::kTear}) {
      const TempDir dir;
      CheckpointStore(dir.path()).save(TinyState(1).contents());
      run_killed(dir.path(), fault, at);
      expect_recoverable(dir.path(), fmt::format("killed at operation {} of {}", at, num_ops));
    }
  }
}

TEST(Fault, ReplacingAStepMayBeInterrupted) {
  const FaultyOps ops;
  const int num_ops = count_operations({1, 2});
  for (int at = 1; at <= num_ops; ++at) {
    const TempDir dir;
    CheckpointStore store(dir.path());
    for (const int step : {1, 2}) store.save(TinyState(step).contents());
    run_killed(dir.path(), Fault::kKill, at);
    expect_recoverable(dir.path(), fmt::format("killed at operation {} of {}", at, num_ops));
  }
}

TEST(Fault, TooLittleSpaceIsSeenBeforeWriting) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  const TinyState state(1);
  CheckpointContents contents = state.contents();
  // A view longer than any disk; it must be refused before its bytes are touched.
  contents.weights[0].bytes = {contents.weights[0].bytes.data(), std::size_t{1} << 60};
  EXPECT_THROW(store.save(contents), Error);
  EXPECT_TRUE(list_directory(dir.path()).empty());
}

TEST(RunLock, SecondRunIsRefusedAndAStaleLockIsNot) {
  const TempDir dir;
  {
    const RunLock lock(dir / "run");
    try {
      RunLock second(dir / "run");
      FAIL() << "two runs hold one folder";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("process {}", ::getpid())), std::string::npos) << error.what();
    }
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    new RunLock(dir / "run");  // never released: the process dies holding it
    ::_exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_NO_THROW(RunLock(dir / "run"));
}

}  // namespace
}  // namespace ida::checkpoint

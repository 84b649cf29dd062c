#include "reliability/fault_layer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "base/file.h"

namespace ida::reliability {
namespace {

constexpr int kGone = 9;  // exit code of a process that a fault ended: nothing of it runs any more

FaultPlan plan;
int num_operations = 0;
int num_latest = 0;  // moves of `latest`
int log_fd = -1;
std::mutex mutex;  // a run may save on a thread of its own
std::map<int, std::string> path_of_fd;

std::string path_of(int fd) {
  const std::lock_guard lock(mutex);
  return path_of_fd[fd];
}

// Counts; true when the operation must fail, with errno set.
bool faulted(const char* kind, const std::string& path, bool needs_space) {
  const std::lock_guard lock(mutex);
  const int number = ++num_operations;
  if (log_fd >= 0) {
    const std::string line = std::string(kind) + " " + path + "\n";
    if (::write(log_fd, line.data(), line.size()) < 0) ::_exit(kGone);
  }
  switch (plan.fault) {
    case Fault::kNone: return false;
    case Fault::kFail: errno = EIO; return number == plan.at;
    case Fault::kDead: errno = EIO; return number >= plan.at;
    case Fault::kFull: errno = plan.at % 2 == 1 ? ENOSPC : EDQUOT; return number >= plan.at && needs_space;
    case Fault::kTear:
    case Fault::kKill:
      if (number == plan.at) ::_exit(kGone);
      return false;
    case Fault::kKillLatest:
      if (num_latest == plan.at) ::_exit(kGone);
      if (std::string_view(kind) == "rename" && path.ends_with("/checkpoints/latest")) ++num_latest;
      return false;
  }
  return false;
}

int faulty_open(const char* path, int flags, mode_t mode) {
  const bool creates = (flags & O_CREAT) != 0;
  if (faulted(creates ? "create" : "open", path, creates)) return -1;
  const int fd = system_file_ops().open(path, flags, mode);
  const std::lock_guard lock(mutex);
  path_of_fd[fd] = path;
  return fd;
}

ssize_t faulty_write(int fd, const void* data, std::size_t size) {
  const bool tears = plan.fault == Fault::kTear && num_operations + 1 == plan.at;
  if (tears && system_file_ops().write(fd, data, size / 2) < 0) ::_exit(kGone);
  return faulted("write", path_of(fd), true) ? -1 : system_file_ops().write(fd, data, size);
}

FileOps faulty_ops() {
  FileOps ops = system_file_ops();
  ops.open = faulty_open;
  ops.write = faulty_write;
  ops.read = [](int fd, void* data, std::size_t size) {
    return faulted("read", path_of(fd), false) ? ssize_t{-1} : system_file_ops().read(fd, data, size);
  };
  // A process that dies leaves the page cache intact: syncing is counted, and left out for speed.
  ops.fsync = [](int fd) { return faulted("sync", path_of(fd), true) ? -1 : 0; };
  ops.map = [](int fd, std::size_t size) {
    return faulted("map", path_of(fd), false) ? MAP_FAILED : system_file_ops().map(fd, size);
  };
  ops.rename = [](const char* from, const char* to) {
    return faulted("rename", to, false) ? -1 : system_file_ops().rename(from, to);
  };
  ops.unlink = [](const char* path) { return faulted("unlink", path, false) ? -1 : system_file_ops().unlink(path); };
  ops.symlink = [](const char* target, const char* path) {
    return faulted("symlink", path, true) ? -1 : system_file_ops().symlink(target, path);
  };
  ops.mkdir = [](const char* path, mode_t mode) {
    return faulted("mkdir", path, true) ? -1 : system_file_ops().mkdir(path, mode);
  };
  ops.rmdir = [](const char* path) { return faulted("rmdir", path, false) ? -1 : system_file_ops().rmdir(path); };
  return ops;
}

}  // namespace

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "none";
    case Fault::kFail: return "fail";
    case Fault::kDead: return "dead";
    case Fault::kFull: return "full";
    case Fault::kTear: return "tear";
    case Fault::kKill: return "kill";
    case Fault::kKillLatest: return "kill_latest";
  }
  return "";
}

void install_faults(const FaultPlan& new_plan, const std::string& log) {
  plan = new_plan;
  num_operations = 0;
  if (!log.empty()) log_fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  replace_file_ops(faulty_ops());
}

std::vector<Operation> read_operations(const std::string& log) {
  std::vector<Operation> operations;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    const std::size_t blank = line.find(' ');
    operations.push_back({line.substr(0, blank), line.substr(blank + 1)});
  }
  return operations;
}

}  // namespace ida::reliability

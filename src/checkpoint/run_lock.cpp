#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace ida::checkpoint {
namespace {

// "process 123 on host" as the holder wrote it.
std::string read_holder(int fd) {
  std::array<char, 256> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  std::string_view holder(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  while (holder.ends_with('\n')) holder.remove_suffix(1);
  return holder.empty() ? "another process" : printable_excerpt(holder);
}

std::string own_name() {
  std::array<char, 128> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}\n", ::getpid(), host.data());
}

}  // namespace

RunLock::RunLock(const std::string& run_dir) {
  make_directories(run_dir);
  const std::string path = run_dir + "/run.lock";
  fd_ = file_ops().open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) fail_runtime("cannot open {}: {}", path, std::strerror(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    const std::string holder = read_holder(fd_);
    file_ops().close(fd_);
    if (code != EWOULDBLOCK) fail_runtime("cannot lock {}: {}", path, std::strerror(code));
    fail_runtime("{}: {} is running in this folder; stop it or choose another run.name", run_dir, holder);
  }
  const std::string name = own_name();
  // The text only helps the message above; the lock holds without it.
  const bool emptied = ::ftruncate(fd_, 0) == 0;
  if (emptied && ::pwrite(fd_, name.data(), name.size(), 0) != static_cast<ssize_t>(name.size()))
    static_cast<void>(::ftruncate(fd_, 0) == 0);
}

RunLock::~RunLock() { file_ops().close(fd_); }

}  // namespace ida::checkpoint

#include "metrics/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace ida::metrics {

AppendFile::AppendFile(std::string path, Mode mode, int sync_every) : path_(std::move(path)), sync_every_(sync_every) {
  const int exclusive = mode == Mode::kCreateNew ? O_EXCL : 0;
  do {
    fd_ = file_ops().open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | exclusive, 0666);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0 && !(mode == Mode::kCreateNew && errno == EEXIST))
    fail_runtime("cannot open {} for appending: {}", path_, std::strerror(errno));
}

AppendFile::~AppendFile() {
  if (fd_ < 0) return;
  try {
    if (num_unsynced_ > 0 || !kept_.empty()) sync();
  } catch (const Error&) {  // whoever needs to know calls sync() before
  }
  file_ops().close(fd_);
}

void AppendFile::append(std::string_view piece) {
  assert(fd_ >= 0);
  kept_ += piece;
  ++num_unsynced_;
  write_kept();
  if (num_unsynced_ >= sync_every_ && sync_every_ > 0) sync();
}

void AppendFile::write_kept() {
  const off_t start = ::lseek(fd_, 0, SEEK_END);
  std::size_t done = 0;
  while (done < kept_.size()) {
    const ssize_t put = file_ops().write(fd_, kept_.data() + done, kept_.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int code = put < 0 ? errno : ENOSPC;
      const bool cut = done == 0 || ::ftruncate(fd_, start) == 0;
      if (!cut) kept_.erase(0, done);
      fail_runtime("cannot append to {}: {}{}", path_, std::strerror(code), cut ? "" : "; its last line is torn");
    }
    done += static_cast<std::size_t>(put);
  }
  kept_.clear();
}

void AppendFile::sync() {
  write_kept();
  int result = 0;
  do {
    result = file_ops().fsync(fd_);
  } while (result != 0 && errno == EINTR);
  // A pipe or device cannot be synced and need not be.
  if (result != 0 && errno != EINVAL) fail_runtime("cannot sync {}: {}", path_, std::strerror(errno));
  num_unsynced_ = 0;
}

}  // namespace ida::metrics

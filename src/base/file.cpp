#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace ida {
namespace {

namespace fs = std::filesystem;

// One write call moves at most this much, so that a full disk or a kill in a large file is seen between calls.
constexpr std::size_t kMaxWriteBytes = std::size_t{8} << 20;

FileOps& current_ops() {
  static FileOps ops = system_file_ops();
  return ops;
}

[[noreturn]] void fail_io(const char* operation, const std::string& path) {
  const int code = errno;
  fail_runtime("cannot {} {}: {}", operation, path, std::strerror(code));
}

// The system would read such a name up to its NUL and take another file for the one that was named.
bool has_nul(const std::string& path) { return path.find('\0') != std::string::npos; }

int open_retrying(const std::string& path, int flags, mode_t mode) {
  if (has_nul(path)) {
    errno = EINVAL;
    return -1;
  }
  int fd = -1;
  do {
    fd = file_ops().open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// A file opened for reading. Non-blocking, so that a FIFO is refused and not waited for.
class ReadHandle {
 public:
  explicit ReadHandle(const std::string& path) : fd_(open_retrying(path, O_RDONLY | O_NONBLOCK, 0)) {
    if (fd_ < 0) fail_io("open", path);
    struct stat info {};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
      file_ops().close(fd_);
      fail_corrupt("{}: not a regular file", path);
    }
    size_bytes_ = static_cast<std::uint64_t>(info.st_size);
  }
  ~ReadHandle() { file_ops().close(fd_); }
  ReadHandle(const ReadHandle&) = delete;
  ReadHandle& operator=(const ReadHandle&) = delete;

  int fd() const { return fd_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  int fd_;
  std::uint64_t size_bytes_ = 0;
};

void sync_fd(int fd, const std::string& path) {
  int result = 0;
  do {
    result = file_ops().fsync(fd);
  } while (result != 0 && errno == EINTR);
  if (result != 0) fail_io("sync", path);
}

std::string temp_path_for(const std::string& path) {
  static std::atomic<std::uint64_t> counter{0};
  const fs::path target(path);
  const std::string name = fmt::format(".{}.tmp-{}-{}", target.filename().string(), ::getpid(), counter++);
  return (target.parent_path() / name).string();
}

}  // namespace

const FileOps& system_file_ops() {
  static const FileOps ops = {
      .open = [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); },
      .read = [](int fd, void* data, std::size_t size) { return ::read(fd, data, size); },
      .write = [](int fd, const void* data, std::size_t size) { return ::write(fd, data, size); },
      .fsync = [](int fd) { return ::fsync(fd); },
      .close = [](int fd) { return ::close(fd); },
      .map = [](int fd, std::size_t size) { return ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0); },
      .unmap = [](void* data, std::size_t size) { return ::munmap(data, size); },
      .rename = [](const char* from, const char* to) { return std::rename(from, to); },
      .unlink = [](const char* path) { return ::unlink(path); },
      .symlink = [](const char* target, const char* path) { return ::symlink(target, path); },
      .mkdir = [](const char* path, mode_t mode) { return ::mkdir(path, mode); },
      .rmdir = [](const char* path) { return ::rmdir(path); },
  };
  return ops;
}

const FileOps& file_ops() { return current_ops(); }

FileOps replace_file_ops(const FileOps& ops) { return std::exchange(current_ops(), ops); }

std::string read_file(const std::string& path, std::uint64_t max_bytes) {
  const ReadHandle file(path);
  if (file.size_bytes() > max_bytes) {
    fail_corrupt("{}: {} bytes, at most {} are accepted", path, file.size_bytes(), max_bytes);
  }
  std::string text(file.size_bytes(), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = file_ops().read(file.fd(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io("read", path);
    if (got == 0) fail_corrupt("{}: ends after {} bytes, expected {}", path, done, text.size());
    done += static_cast<std::size_t>(got);
  }
  return text;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const ReadHandle file(path);
  if (file.size_bytes() == 0) return;
  void* data = file_ops().map(file.fd(), file.size_bytes());
  if (data == MAP_FAILED) fail_io("map", path);
  data_ = static_cast<const std::byte*>(data);
  size_ = file.size_bytes();
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) file_ops().unmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(part.data()) + part.size()) / page * page;
  // Only a hint: where it fails, the pages stay, and nothing else changes.
  if (begin < end) static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
}

DurableFileWriter::DurableFileWriter(std::string path) : path_(std::move(path)) {
  do {  // a name can be taken: a killed run with the same process id (containers) leaves its temporary files behind
    temp_path_ = temp_path_for(path_);
    fd_ = open_retrying(temp_path_, O_WRONLY | O_CREAT | O_EXCL, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) fail_io("create", std::exchange(temp_path_, std::string()));
}

DurableFileWriter::~DurableFileWriter() {
  if (fd_ >= 0) file_ops().close(fd_);
  if (!temp_path_.empty()) file_ops().unlink(temp_path_.c_str());
}

void DurableFileWriter::write(std::span<const std::byte> bytes) {
  assert(fd_ >= 0);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t size = std::min(bytes.size() - done, kMaxWriteBytes);
    const ssize_t put = file_ops().write(fd_, bytes.data() + done, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_io("write", path_);
    if (put == 0) fail_runtime("cannot write {}: the file system accepted no byte", path_);
    done += static_cast<std::size_t>(put);
  }
  hash_.update(bytes);
  size_bytes_ += bytes.size();
}

void DurableFileWriter::finish() {
  assert(fd_ >= 0);
  sync_fd(fd_, path_);
  if (file_ops().close(std::exchange(fd_, -1)) != 0) fail_io("close", path_);
  rename_path(temp_path_, path_);
  temp_path_.clear();
  sync_directory(parent_path(path_));
  sha256_ = hash_.hex();
}

void write_file_atomic(const std::string& path, std::span<const std::byte> bytes) {
  DurableFileWriter writer(path);
  writer.write(bytes);
  writer.finish();
}

void sync_directory(const std::string& path) {
  const int fd = open_retrying(path, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) fail_io("open folder", path);
  try {
    sync_fd(fd, path);
  } catch (...) {
    file_ops().close(fd);
    throw;
  }
  file_ops().close(fd);
}

void make_directories(const std::string& path) {
  if (path.empty() || is_directory(path)) return;
  const std::string parent = parent_path(path);
  if (parent != path) make_directories(parent);
  if (file_ops().mkdir(path.c_str(), 0777) == 0) return sync_directory(parent);
  if (errno != EEXIST || !is_directory(path)) fail_io("create folder", path);
}

void rename_path(const std::string& from, const std::string& to) {
  if (file_ops().rename(from.c_str(), to.c_str()) != 0) {
    const int code = errno;
    fail_runtime("cannot rename {} to {}: {}", from, to, std::strerror(code));
  }
}

void replace_symlink(const std::string& target, const std::string& path) {
  const std::string temp_path = temp_path_for(path);
  remove_file(temp_path);
  if (file_ops().symlink(target.c_str(), temp_path.c_str()) != 0) fail_io("create link", temp_path);
  try {
    rename_path(temp_path, path);
  } catch (...) {
    file_ops().unlink(temp_path.c_str());
    throw;
  }
  sync_directory(parent_path(path));
}

void remove_file(const std::string& path) {
  if (file_ops().unlink(path.c_str()) != 0 && errno != ENOENT) fail_io("remove", path);
}

void remove_tree(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return;
    fail_io("remove", path);
  }
  if (!S_ISDIR(info.st_mode)) {
    remove_file(path);
    return;
  }
  for (const std::string& name : list_directory(path)) remove_tree(path + "/" + name);
  if (file_ops().rmdir(path.c_str()) != 0 && errno != ENOENT) fail_io("remove folder", path);
}

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return !has_nul(path) && fs::exists(path, ignored);
}

bool is_regular_file(const std::string& path) {
  std::error_code ignored;
  return !has_nul(path) && fs::is_regular_file(path, ignored);
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return !has_nul(path) && fs::is_directory(path, ignored);
}

std::uint64_t file_size_bytes(const std::string& path) {
  std::error_code code;
  const std::uintmax_t size = fs::file_size(path, code);
  if (code) fail_runtime("cannot read the size of {}: {}", path, code.message());
  return size;
}

std::vector<std::string> list_directory(const std::string& path) {
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
    names.push_back(it->path().filename().string());
  }
  if (code) fail_runtime("cannot list folder {}: {}", path, code.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t free_space_bytes(const std::string& path) {
  std::error_code code;
  const fs::space_info info = fs::space(path, code);
  if (code) fail_runtime("cannot read the free space of {}: {}", path, code.message());
  return info.available;
}

std::string parent_path(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const std::string parent = fs::path(trimmed).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace ida

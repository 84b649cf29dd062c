// Files of the engine: whole-file reads, read-only maps, durable and atomic writes.
//
// Every operation that touches the disk goes through one table of functions with POSIX meaning (a negative result or
// MAP_FAILED, and errno), so that a test can fail, tear or kill the k-th one. Failures are ida::Error kRuntime with the
// operation, the path and errno's text.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"

namespace ida {

struct FileOps {
  int (*open)(const char* path, int flags, mode_t mode);
  ssize_t (*read)(int fd, void* data, std::size_t size);
  ssize_t (*write)(int fd, const void* data, std::size_t size);
  int (*fsync)(int fd);
  int (*close)(int fd);
  void* (*map)(int fd, std::size_t size);  // whole file, read-only, private
  int (*unmap)(void* data, std::size_t size);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
  int (*symlink)(const char* target, const char* path);
  int (*mkdir)(const char* path, mode_t mode);
  int (*rmdir)(const char* path);
};

// The table in use; the system's own unless replaced.
const FileOps& file_ops();
const FileOps& system_file_ops();
// Replaces the table for the whole process and returns the former one. For fault injection: no other thread may be in
// a file operation meanwhile.
FileOps replace_file_ops(const FileOps& ops);

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The whole regular file; more than `max_bytes` is refused (kCorrupt), as is anything that is not a regular file.
std::string read_file(const std::string& path, std::uint64_t max_bytes = std::uint64_t{1} << 32);

// A read-only map of a whole regular file. Move-only; the bytes live as long as the object.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Takes the whole pages of a part of bytes() out of this process's memory; a later access reads them again.
  void drop_pages(std::span<const std::byte> part) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Writes a file so that `path` either keeps its old content or has all of the new one: bytes go to a temporary file in
// the same folder, finish() syncs it, renames it and syncs the folder. Dropped before finish(), the temporary file is
// removed and `path` is untouched.
class DurableFileWriter {
 public:
  explicit DurableFileWriter(std::string path);
  ~DurableFileWriter();
  DurableFileWriter(const DurableFileWriter&) = delete;
  DurableFileWriter& operator=(const DurableFileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(as_bytes(text)); }
  void finish();

  std::uint64_t size_bytes() const { return size_bytes_; }
  // SHA-256 of the written bytes; valid after finish().
  const std::string& sha256() const { return sha256_; }

 private:
  std::string path_;
  std::string temp_path_;
  int fd_ = -1;
  std::uint64_t size_bytes_ = 0;
  Sha256 hash_;
  std::string sha256_;
};

void write_file_atomic(const std::string& path, std::span<const std::byte> bytes);
inline void write_file_atomic(const std::string& path, std::string_view text) { write_file_atomic(path, as_bytes(text)); }

// Makes the names inside a folder durable (fsync of the folder).
void sync_directory(const std::string& path);
// Creates a folder and its missing parents, their names durable; an existing folder is fine.
void make_directories(const std::string& path);
// rename(2): replaces `to` when both are files, or when `to` is an empty folder.
void rename_path(const std::string& from, const std::string& to);
// Makes `path` a symbolic link to `target`, atomically replacing an earlier link or file, and syncs the folder.
void replace_symlink(const std::string& target, const std::string& path);
// Missing files are fine.
void remove_file(const std::string& path);
// Removes a folder and everything in it, never following symbolic links; a missing folder is fine.
void remove_tree(const std::string& path);

bool path_exists(const std::string& path);  // of any kind, following links
bool is_regular_file(const std::string& path);
bool is_directory(const std::string& path);
std::uint64_t file_size_bytes(const std::string& path);
// Names (not paths) of the entries of a folder, sorted by bytes.
std::vector<std::string> list_directory(const std::string& path);
// Bytes an unprivileged process may still write on the file system that holds `path`.
std::uint64_t free_space_bytes(const std::string& path);
// "a/b/c" -> "a/b"; a bare name -> ".".
std::string parent_path(const std::string& path);

}  // namespace ida

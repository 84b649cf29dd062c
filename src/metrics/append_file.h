// A file that only grows, whole pieces at a time: what the line and record logs are written through.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace ida::metrics {

class AppendFile {
 public:
  enum class Mode : std::uint8_t {
    kAppend,    // opens or creates
    kCreateNew  // the name must be free
  };

  // `sync_every`: fsync after this many pieces; 0 leaves it to sync(). With kCreateNew an existing file leaves the
  // object closed (is_open() false); every other failure is a run-time error naming the path.
  AppendFile(std::string path, Mode mode, int sync_every);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  const std::string& path() const { return path_; }

  // Hands the piece to the kernel. Where only a part fits (full disk) that part is cut off again before the error is
  // thrown, so the file never holds half a piece. The piece is then kept: the next append() or sync() writes it first.
  void append(std::string_view piece);
  void sync();

 private:
  void write_kept();

  std::string path_;
  int fd_ = -1;
  int sync_every_;
  int num_unsynced_ = 0;
  std::string kept_;  // pieces that the disk has not taken yet
};

}  // namespace ida::metrics

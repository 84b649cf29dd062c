#include "fuzz/support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "base/file.h"

namespace ida::fuzz {
namespace {

constexpr std::size_t kMaxMessageBytes = 2000;

class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = ::access(memory.c_str(), W_OK) == 0;
    path_ = ((in_memory ? memory : std::filesystem::temp_directory_path()) / "ida-fuzz-XXXXXX").string();
    require(mkdtemp(path_.data()) != nullptr, "no folder for scratch files");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

void require(bool condition, std::string_view what) {
  if (!condition) throw std::logic_error(std::string(what));
}

void check_refusal(const Error& error, std::initializer_list<ExitCode> codes) {
  const std::string_view message = error.what();
  require(std::find(codes.begin(), codes.end(), error.code()) != codes.end(),
          fmt::format("exit code {}: {}", static_cast<int>(error.code()), message));
  require(!message.empty() && message.size() <= kMaxMessageBytes, fmt::format("message of {} bytes", message.size()));
  const bool one_line = std::none_of(message.begin(), message.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  require(one_line, fmt::format("a message with control bytes: {}", message));
}

std::vector<std::string_view> split_at_nul(std::string_view text, std::size_t num_parts) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < num_parts) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  parts.push_back(text);
  return parts;
}

const std::string& scratch_folder() {
  static const Folder folder;
  return folder.path();
}

std::string scratch_file(std::string_view name, std::string_view bytes) {
  std::string path = fmt::format("{}/{}", scratch_folder(), name);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  require(fd >= 0, "a scratch file cannot be opened");
  const bool whole = ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(fd);
  require(whole, "a scratch file cannot be written");
  return path;
}

std::string read_scratch_file(std::string_view name) { return read_file(fmt::format("{}/{}", scratch_folder(), name)); }

}  // namespace ida::fuzz

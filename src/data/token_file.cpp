#include "data/token_file.h"

#include <array>
#include <cstring>

#include "base/error.h"

namespace ida::data {
namespace {

constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);

}  // namespace

TokenFile::TokenFile(const std::string& path) : file_(path) {
  std::array<std::int32_t, 3> header{};
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() >= kHeaderBytes) std::memcpy(header.data(), bytes.data(), sizeof(header));
  const bool narrow = header[0] == 20240520 && header[1] == 1;
  const bool wide = header[0] == 20240801 && header[1] == 7;
  if (!narrow && !wide) {
    fail_corrupt("{}: not a file of tokens: magic {}, version {}; expected 20240520, 1 or 20240801, 7", path, header[0],
                 header[1]);
  }
  width_bytes_ = narrow ? 2 : 4;
  num_tokens_ = header[2];
  const std::int64_t expected = static_cast<std::int64_t>(kHeaderBytes) + num_tokens_ * width_bytes_;
  if (num_tokens_ < 0 || static_cast<std::int64_t>(bytes.size()) != expected)
    fail_corrupt("{}: {} bytes, but its header says {} tokens of {} bytes", path, bytes.size(), num_tokens_, width_bytes_);
}

std::int64_t TokenFile::token(std::int64_t at) const {
  std::uint32_t id = 0;
  std::memcpy(&id, file_.bytes().data() + kHeaderBytes + static_cast<std::size_t>(at * width_bytes_),
              static_cast<std::size_t>(width_bytes_));
  return id;
}

}  // namespace ida::data

// A file of token ids as llm.c writes them: 256 int32 of header (magic, version, number of tokens, zeros), then the ids
// as u16 (magic 20240520, version 1) or u32 (magic 20240801, version 7), little-endian.
#pragma once
#include <cstdint>
#include <string>

#include "base/file.h"

namespace ida::data {

class TokenFile {
 public:
  // Errors (kCorrupt): another header, or a size that is not what the header says.
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t width_bytes() const { return width_bytes_; }
  std::int64_t token(std::int64_t at) const;

 private:
  MappedFile file_;
  std::int64_t num_tokens_ = 0;
  std::int64_t width_bytes_ = 0;
};

}  // namespace ida::data

// The JSON header of a safetensors file as events, without a document tree: a hostile header of 100 MB costs no more
// than its tensors. Internal to the checkpoint room.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace ida::checkpoint {

struct HeaderEntry {
  std::string name;
  StoredDType dtype = StoredDType::kU8;
  std::vector<std::uint64_t> shape = {};
  std::uint64_t begin = 0;  // relative to the first byte after the header
  std::uint64_t end = 0;
};

struct Header {
  Metadata metadata;
  std::vector<HeaderEntry> entries;  // in the order of the text
};

// Syntax and types only; offsets and sizes are not judged here. Errors are kCorrupt.
Header parse_safetensors_header(std::string_view json, std::string_view origin);

}  // namespace ida::checkpoint

// Reads files from standard input, each as a u32 (little endian) size and its bytes, and prints one line for each: what
// the reader found in it, or why it refused it. For tools/compare_safetensors.py.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string verdict(const std::string& file) {
  try {
    ida::checkpoint::SafetensorsContent content = ida::checkpoint::parse_safetensors(ida::as_bytes(file), "file");
    std::sort(content.tensors.begin(), content.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    std::string text = "accepted";
    for (const ida::checkpoint::TensorSpan& tensor : content.tensors) {
      const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      text += fmt::format(" {}:{}:{}:{}", hex(tensor.name), tensor.dtype_name(), fmt::join(tensor.shape, ","), hex(bytes));
    }
    return text;
  } catch (const ida::Error& error) {
    return fmt::format("refused {}", error.what());
  }
}

}  // namespace

int main() {
  std::string file;
  std::uint32_t size = 0;
  while (std::fread(&size, sizeof(size), 1, stdin) == 1) {
    file.resize(size);
    if (std::fread(file.data(), 1, size, stdin) != size) return 1;
    fmt::print("{}\n", verdict(file));
    std::fflush(stdout);
  }
  return 0;
}

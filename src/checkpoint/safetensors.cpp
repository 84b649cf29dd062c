#include "checkpoint/safetensors.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/safetensors_header.h"

namespace ida::checkpoint {
namespace {

constexpr std::uint64_t kPrefixBytes = 8;

// a * b, or false when it does not fit 64 bits.
bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

std::uint64_t read_u64_le(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(i)]);
  return value;
}

std::string_view header_text(std::span<const std::byte> file, std::string_view origin) {
  if (file.size() < kPrefixBytes) fail_corrupt("{}: {} bytes, too short for a safetensors file", origin, file.size());
  const std::uint64_t size = read_u64_le(file);
  if (size > kMaxHeaderBytes) {
    fail_corrupt("{}: header of {} bytes, at most {} are accepted", origin, size, kMaxHeaderBytes);
  }
  if (size > file.size() - kPrefixBytes) {
    fail_corrupt("{}: header of {} bytes does not fit the file of {} bytes (truncated?)", origin, size, file.size());
  }
  return {reinterpret_cast<const char*>(file.data()) + kPrefixBytes, size};
}

// Bytes of a tensor by its dtype and shape.
std::uint64_t expected_size_bytes(const HeaderEntry& entry, std::string_view origin) {
  std::uint64_t numel = 1;
  std::uint64_t num_bits = 0;
  bool fits = true;
  for (const std::uint64_t dim : entry.shape) {
    fits = fits && dim <= std::uint64_t{std::numeric_limits<std::int64_t>::max()} && checked_multiply(numel, dim, numel);
  }
  fits = fits && checked_multiply(numel, static_cast<std::uint64_t>(stored_dtype_info(entry.dtype).bits), num_bits);
  if (!fits) fail_corrupt("{}: tensor '{}': the size of its shape overflows", origin, printable_excerpt(entry.name));
  if (num_bits % 8 != 0) {
    fail_corrupt("{}: tensor '{}': {} bits are no whole number of bytes", origin, printable_excerpt(entry.name), num_bits);
  }
  return num_bits / 8;
}

void check_entry(const HeaderEntry& entry, std::uint64_t expected_begin, std::string_view origin) {
  if (entry.begin != expected_begin || entry.end < entry.begin) {
    fail_corrupt("{}: tensor '{}': data_offsets [{}, {}], expected to start at {} (overlap, hole or inverted range)",
                 origin, printable_excerpt(entry.name), entry.begin, entry.end, expected_begin);
  }
  const std::uint64_t size = expected_size_bytes(entry, origin);
  if (entry.end - entry.begin != size) {
    fail_corrupt("{}: tensor '{}': {} bytes stored, its dtype and shape need {}", origin, printable_excerpt(entry.name),
                 entry.end - entry.begin, size);
  }
}

}  // namespace

SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
  const std::string_view json = header_text(file, origin);
  Header header = parse_safetensors_header(json, origin);
  std::sort(header.entries.begin(), header.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  // All ranges are judged before any view is made.
  const std::span<const std::byte> data = file.subspan(kPrefixBytes + json.size());
  std::uint64_t position = 0;
  for (const HeaderEntry& entry : header.entries) {
    check_entry(entry, position, origin);
    position = entry.end;
  }
  if (position != data.size()) {
    fail_corrupt("{}: the tensors take {} bytes, the file holds {} after its header ({})", origin, position, data.size(),
                 position > data.size() ? "truncated" : "trailing bytes");
  }
  SafetensorsContent content;
  content.metadata = std::move(header.metadata);
  for (HeaderEntry& entry : header.entries) {
    content.tensors.push_back({.name = std::move(entry.name),
                               .dtype = entry.dtype,
                               .shape = std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end()),
                               .bytes = data.subspan(entry.begin, entry.end - entry.begin)});
  }
  return content;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : SafetensorsFile(MappedFile(path)) {}

SafetensorsFile::SafetensorsFile(MappedFile file)
    : file_(std::move(file)), content_(parse_safetensors(file_.bytes(), file_.path())) {
  for (std::size_t i = 0; i < content_.tensors.size(); ++i) index_[content_.tensors[i].name] = i;
}

const TensorSpan* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &content_.tensors[found->second];
}

const TensorSpan& SafetensorsFile::require(std::string_view name) const {
  const TensorSpan* tensor = find(name);
  if (tensor == nullptr) fail_corrupt("{}: tensor '{}' is missing", path(), printable_excerpt(name));
  return *tensor;
}

}  // namespace ida::checkpoint

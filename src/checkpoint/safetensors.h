// safetensors: u64 little-endian N, N bytes of JSON, then the tensors' bytes without holes.
//
// The reader takes no byte on trust: every rule of the reference implementation (safetensors 0.8) is checked before a
// view is handed out, and it is stricter in three points the format's text disallows or leaves open: no key may appear
// twice, no name may hold a NUL, no dimension may reach 2^63. Errors are kCorrupt and name the file and the tensor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/stored_dtype.h"

namespace ida::checkpoint {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// A named tensor in someone else's memory: row-major, little endian.
struct TensorSpan {
  std::string name;
  StoredDType dtype = StoredDType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::string_view dtype_name() const { return stored_dtype_info(dtype).name; }
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsContent {
  Metadata metadata;
  std::vector<TensorSpan> tensors;  // by position in the file; views into the parsed bytes
};

// Checks a whole file in memory. `origin` (its path) starts every error message.
SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view origin);

// A mapped file; its tensors are views that live as long as the object. The file must not be truncated meanwhile.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  explicit SafetensorsFile(MappedFile file);

  const std::string& path() const { return file_.path(); }
  const Metadata& metadata() const { return content_.metadata; }
  const std::vector<TensorSpan>& tensors() const { return content_.tensors; }
  const TensorSpan* find(std::string_view name) const;     // nullptr when absent
  const TensorSpan& require(std::string_view name) const;  // kCorrupt when absent
  // A tensor of this file that is not needed soon again leaves this process's memory.
  void drop_pages(const TensorSpan& tensor) const { file_.drop_pages(tensor.bytes); }

 private:
  MappedFile file_;
  SafetensorsContent content_;
  std::map<std::string_view, std::size_t> index_;
};

struct TensorPlan {
  std::string name;
  StoredDType dtype = StoredDType::kF32;
  std::vector<std::int64_t> shape;

  std::uint64_t size_bytes() const;
};

// Writes a file tensor by tensor, so that no second copy of all tensors is needed. The order is the reference's (dtype
// descending, then name) and the header is padded with blanks to a multiple of 8, so equal tensors make equal files.
// Atomic and durable as DurableFileWriter; `metadata` is normally pytorch_metadata().
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<TensorPlan> tensors, const Metadata& metadata);

  // The tensors in the order in which append() expects their bytes.
  const std::vector<TensorPlan>& order() const { return order_; }
  // The bytes of the next tensor, whole.
  void append(std::span<const std::byte> bytes);
  void finish();

  std::uint64_t size_bytes() const { return file_.size_bytes(); }
  const std::string& sha256() const { return file_.sha256(); }

 private:
  std::vector<TensorPlan> order_;
  std::size_t next_ = 0;
  DurableFileWriter file_;
};

struct WrittenFile {
  std::uint64_t size_bytes = 0;
  std::string sha256;
};

// What every loader of Hugging Face expects: {"format": "pt"}.
const Metadata& pytorch_metadata();
WrittenFile write_safetensors(const std::string& path, const std::vector<TensorSpan>& tensors, const Metadata& metadata);

}  // namespace ida::checkpoint

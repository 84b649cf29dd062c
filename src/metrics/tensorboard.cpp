#include "metrics/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "metrics/crc32c.h"

namespace ida::metrics {
namespace {

static_assert(std::endian::native == std::endian::little, "fixed-width fields are stored as they lie in memory");

template <typename T>
void append_fixed(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

// The protobuf wire format, as much of it as events need.
class Message {
 public:
  Message& int_field(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& double_field(int field, double value) {
    key(field, 1);
    append_fixed(bytes_, value);
    return *this;
  }
  Message& float_field(int field, float value) {
    key(field, 5);
    append_fixed(bytes_, value);
    return *this;
  }
  Message& bytes_field(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message_field(int field, const Message& value) { return bytes_field(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type) {
    varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

double unix_time_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Message event_at(std::int64_t step) {
  Message event;
  event.double_field(1, unix_time_s()).int_field(2, step);
  return event;
}

std::string framed(const Message& event) {
  std::string length;
  append_fixed<std::uint64_t>(length, event.bytes().size());
  std::string record = length;
  append_fixed(record, masked_crc32c(length));
  record += event.bytes();
  append_fixed(record, masked_crc32c(event.bytes()));
  return record;
}

std::unique_ptr<AppendFile> create_event_file(const std::string& folder) {
  char host[256] = "localhost";
  if (::gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "localhost");
  const std::string stem = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}", folder,
                                       static_cast<std::int64_t>(unix_time_s()), host, ::getpid());
  constexpr int kMaxFilesPerSecond = 1000;
  for (int n = 0; n < kMaxFilesPerSecond; ++n) {
    auto file = std::make_unique<AppendFile>(fmt::format("{}.{}", stem, n), AppendFile::Mode::kCreateNew, 0);
    if (file->is_open()) return file;
  }
  fail_runtime("cannot create an event file: {}.0 to .{} exist", stem, kMaxFilesPerSecond - 1);
}

}  // namespace

TensorBoardEvents::TensorBoardEvents(const std::string& folder, std::int64_t resume_step)
    : file_(create_event_file(folder)) {
  file_->append(framed(event_at(0).bytes_field(3, "brain.Event:2")));
  if (resume_step < 0) return;
  constexpr int kStatusStart = 1;
  Message session;
  session.int_field(1, kStatusStart);
  file_->append(framed(event_at(resume_step + 1).message_field(7, session)));
}

void TensorBoardEvents::write(const MetricsRecord& record) {
  Message summary;
  for (const auto& [key, value] : record.values) {
    Message scalar;
    scalar.bytes_field(1, key).float_field(2, static_cast<float>(value));
    summary.message_field(1, scalar);
  }
  file_->append(framed(event_at(record.step).message_field(5, summary)));
}

void TensorBoardEvents::write_text(std::string_view tag, std::string_view text, std::int64_t step) {
  constexpr int kDtString = 7;
  constexpr int kDataClassTensor = 2;
  Message dim, shape, tensor, plugin, metadata, value, summary;
  dim.int_field(1, 1);
  shape.message_field(2, dim);
  tensor.int_field(1, kDtString).message_field(2, shape).bytes_field(8, text);
  plugin.bytes_field(1, "text");
  metadata.message_field(1, plugin).int_field(4, kDataClassTensor);
  value.bytes_field(1, tag).message_field(8, tensor).message_field(9, metadata);
  summary.message_field(1, value);
  file_->append(framed(event_at(step).message_field(5, summary)));
}

}  // namespace ida::metrics

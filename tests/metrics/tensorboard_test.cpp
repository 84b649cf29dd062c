// The events are read back by a decoder that shares nothing with the writer: a bit-by-bit CRC and a generic reader of
// the protobuf wire format.
#include "metrics/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <regex>

#include "metrics/crc32c.h"
#include "temp_folder.h"

namespace ida::metrics {
namespace {

std::uint32_t crc_bit_by_bit(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const unsigned char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool feedback = ((crc ^ (byte >> bit)) & 1u) != 0;
      crc >>= 1;
      if (feedback) crc ^= 0x82F63B78u;
    }
  }
  return ~crc;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return (rotated << 15) | (rotated >> 17);
}

template <typename T>
T fixed_at(std::string_view bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.substr(offset, sizeof value).data(), sizeof value);
  return value;
}

// Checks both checksums of every record and returns the payloads.
std::vector<std::string> records_of(const std::string& path) {
  const std::string file = read_file(path);
  std::vector<std::string> payloads;
  for (std::size_t at = 0; at < file.size();) {
    EXPECT_LE(at + 16, file.size());
    const auto length = fixed_at<std::uint64_t>(file, at);
    EXPECT_EQ(unmasked(fixed_at<std::uint32_t>(file, at + 8)), crc_bit_by_bit(std::string_view(file).substr(at, 8)));
    EXPECT_LE(at + 16 + length, file.size());
    const std::string payload = file.substr(at + 12, length);
    EXPECT_EQ(unmasked(fixed_at<std::uint32_t>(file, at + 12 + length)), crc_bit_by_bit(payload));
    payloads.push_back(payload);
    at += 16 + length;
  }
  return payloads;
}

struct Field {
  int number;
  int wire_type;
  std::uint64_t integer;  // wire types 0, 1, 5
  std::string bytes;      // wire type 2
};

std::vector<Field> fields_of(std::string_view message) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      EXPECT_LT(at, message.size());
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<Field> fields;
  while (at < message.size()) {
    const std::uint64_t key = varint();
    Field field{static_cast<int>(key >> 3), static_cast<int>(key & 7), 0, {}};
    if (field.wire_type == 0) {
      field.integer = varint();
    } else if (field.wire_type == 1) {
      field.integer = fixed_at<std::uint64_t>(message, at);
      at += 8;
    } else if (field.wire_type == 5) {
      field.integer = fixed_at<std::uint32_t>(message, at);
      at += 4;
    } else {
      EXPECT_EQ(field.wire_type, 2);
      const std::uint64_t size = varint();
      EXPECT_LE(at + size, message.size());
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(field);
  }
  return fields;
}

Field field_of(std::string_view message, int number) {
  for (const Field& field : fields_of(message))
    if (field.number == number) return field;
  ADD_FAILURE() << "field " << number << " is missing";
  return {};
}

float float_of(const Field& field) { return std::bit_cast<float>(static_cast<std::uint32_t>(field.integer)); }
double double_of(const Field& field) { return std::bit_cast<double>(field.integer); }

TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  // RFC 3720, B.4: 32 bytes of zeros, of ones, ascending, descending.
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(descending), 0x113FDB5Cu);
}

TEST(TensorBoardEvents, FileNameIsWhatTensorBoardLooksFor) {
  const TempFolder folder;
  const TensorBoardEvents first(folder.path(), -1);
  const TensorBoardEvents second(folder.path(), -1);
  EXPECT_NE(first.path(), second.path());
  const std::regex name(R"(.*/events\.out\.tfevents\.[0-9]{10}\.[^/]+\.[0-9]+\.[0-9]+)");
  EXPECT_TRUE(std::regex_match(first.path(), name)) << first.path();
  EXPECT_TRUE(std::regex_match(second.path(), name)) << second.path();
}

TEST(TensorBoardEvents, ScalarsDecode) {
  const TempFolder folder;
  const double before = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  TensorBoardEvents events(folder.path(), -1);
  MetricsRecord record{.step = 300, .tokens = 1, .values = {}};
  record.set(kLoss, 4.125);
  record.set(
      "val_loss/a text longer than one hundred and twenty seven bytes so that its length needs two bytes of varint, "
      "which it now has got",
      1e-3);
  record.set(kGradNorm, std::numeric_limits<double>::quiet_NaN());
  events.write(record);
  record.step = std::int64_t{1} << 40;
  events.write(record);

  const auto payloads = records_of(events.path());
  ASSERT_EQ(payloads.size(), 3u);
  EXPECT_EQ(field_of(payloads[0], 3).bytes, "brain.Event:2");
  const double wall = double_of(field_of(payloads[1], 1));
  EXPECT_GE(wall, before);
  EXPECT_LT(wall, before + 60);
  EXPECT_EQ(field_of(payloads[1], 2).integer, 300u);
  EXPECT_EQ(field_of(payloads[2], 2).integer, std::uint64_t{1} << 40);

  const auto values = fields_of(field_of(payloads[1], 5).bytes);
  ASSERT_EQ(values.size(), 3u);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].number, 1);
    EXPECT_EQ(field_of(values[i].bytes, 1).bytes, record.values[i].first);
    EXPECT_EQ(field_of(values[i].bytes, 2).wire_type, 5);
  }
  EXPECT_EQ(float_of(field_of(values[0].bytes, 2)), 4.125f);
  EXPECT_EQ(float_of(field_of(values[1].bytes, 2)), 1e-3f);
  EXPECT_TRUE(std::isnan(float_of(field_of(values[2].bytes, 2))));
}

TEST(TensorBoardEvents, EveryByteOfARecord) {
  const TempFolder folder;
  TensorBoardEvents events(folder.path(), -1);
  MetricsRecord record{.step = 5, .tokens = 0, .values = {}};
  record.set("ab", 1.0);
  events.write(record);
  std::string payload = records_of(events.path()).at(1);
  ASSERT_EQ(payload.size(), 24u);
  payload.replace(1, 8, 8, '\0');                                             // the clock
  const unsigned char expected[] = {0x09, 0,    0,    0,    0,   0, 0, 0, 0,  // 1: wall_time, 64 bit
                                    0x10, 5,                                  // 2: step
                                    0x2a, 11,   0x0a, 9,                      // 5: summary { 1: value {
                                    0x0a, 2,    'a',  'b',                    //   1: tag
                                    0x15, 0x00, 0x00, 0x80, 0x3f};            //   2: simple_value 1.0f } }
  EXPECT_EQ(payload, std::string(reinterpret_cast<const char*>(expected), sizeof expected));
}

TEST(TensorBoardEvents, ResumeTellsTensorBoardToDropLaterSteps) {
  const TempFolder folder;
  const TensorBoardEvents events(folder.path(), 40);
  const auto payloads = records_of(events.path());
  ASSERT_EQ(payloads.size(), 2u);
  EXPECT_EQ(field_of(payloads[1], 2).integer, 41u);
  EXPECT_EQ(field_of(field_of(payloads[1], 7).bytes, 1).integer, 1u);  // SessionLog.START
}

TEST(TensorBoardEvents, TextPanel) {
  const TempFolder folder;
  TensorBoardEvents events(folder.path(), -1);
  events.write_text("config", "[run]\nname = \"x\"", 0);
  const std::string value = field_of(field_of(records_of(events.path()).at(1), 5).bytes, 1).bytes;
  EXPECT_EQ(field_of(value, 1).bytes, "config");
  const std::string tensor = field_of(value, 8).bytes;
  EXPECT_EQ(field_of(tensor, 1).integer, 7u);  // DT_STRING
  EXPECT_EQ(field_of(field_of(field_of(tensor, 2).bytes, 2).bytes, 1).integer, 1u);
  EXPECT_EQ(field_of(tensor, 8).bytes, "[run]\nname = \"x\"");
  const std::string metadata = field_of(value, 9).bytes;
  EXPECT_EQ(field_of(field_of(metadata, 1).bytes, 1).bytes, "text");
  EXPECT_EQ(field_of(metadata, 4).integer, 2u);  // DATA_CLASS_TENSOR
}

}  // namespace
}  // namespace ida::metrics

// What the `safetensors` package says of a corpus of good and bad files (tools/compare_safetensors.py --golden): this
// reader says the same, but for the three points in which it is stricter.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace ida::checkpoint {
namespace {

using Json = nlohmann::json;

// The rows hold one character for each byte of a file.
std::string bytes_of(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      bytes += utf8[i];
    } else {  // U+0080 to U+00FF: two bytes
      bytes += static_cast<char>((lead & 0x03) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3F));
    }
  }
  return bytes;
}

// The message of the refusal, "" for none.
std::string refusal(const std::string& file) {
  try {
    parse_safetensors(as_bytes(file), "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCorrupt) << error.what();
    return error.what();
  }
  return "";
}

TEST(SafetensorsPeer, SameVerdictOnEveryFile) {
  const std::map<std::string, std::string> stricter = {{"key twice", "appears twice"},
                                                       {"NUL in a name", "holds a NUL"},
                                                       {"dimension of 2^63", "size of its shape overflows"}};
  std::ifstream rows(std::string(IDA_TESTS_DIR) + "/checkpoint/safetensors_peer.jsonl");
  std::map<std::string, int> counts;
  std::string line;
  for (int number = 1; std::getline(rows, line); ++number) {
    const Json row = Json::parse(line);
    const std::string message = refusal(bytes_of(row["file"].get<std::string>()));
    const bool peer_accepts = row["peer"] == "accepted";
    if (row.contains("stricter")) {
      const std::string point = row["stricter"];
      EXPECT_TRUE(peer_accepts && message.find(stricter.at(point)) != message.npos) << number << ": " << message;
      ++counts[point];
    } else {
      EXPECT_EQ(message.empty(), peer_accepts) << "row " << number << ": " << message;
      ++counts[row["peer"]];
    }
  }
  EXPECT_GT(counts["accepted"], 100);
  EXPECT_GT(counts["refused"], 400);
  for (const auto& [point, words] : stricter) EXPECT_GT(counts[point], 0) << point;
}

}  // namespace
}  // namespace ida::checkpoint

// Files whose only content is size: deep nesting, header lengths, counts. Refused at once, in little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "config/load.h"
#include "fuzz/support.h"
#include "text/tokenizer.h"

namespace ida::fuzz {
namespace {

constexpr std::size_t kManyBytes = std::size_t{128} << 20;
constexpr std::int64_t kMaxGrowthKib = 64 << 10;

std::int64_t peak_rss_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Refuses `text` without needing more than kMaxGrowthKib beside it.
template <typename Action>
void expect_refused_in_little_memory(std::initializer_list<ExitCode> codes, Action&& action) {
  const std::int64_t before = peak_rss_kib();
  EXPECT_FALSE(accepted(codes, action));
  EXPECT_LE(peak_rss_kib() - before, kMaxGrowthKib);
}

std::string prefixed(std::uint64_t header_bytes, std::string_view header) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &header_bytes, 8);
  return file.append(header);
}

TEST(HostileSizes, Nesting) {
  for (const char bracket : {'[', '{'}) {
    const std::string deep(bracket == '[' ? kManyBytes : kManyBytes / 64, bracket);
    expect_refused_in_little_memory({ExitCode::kCorrupt}, [&] { parse_json(deep, "deep.json"); });
    expect_refused_in_little_memory({ExitCode::kCorrupt}, [&] { text::Tokenizer::from_json(deep); });
    expect_refused_in_little_memory({ExitCode::kUsage}, [&] { config::read_run_config(deep, "deep.toml"); });
    const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":)" + deep.substr(0, 90'000'000);
    const std::string file = prefixed(header.size(), header);
    expect_refused_in_little_memory({ExitCode::kCorrupt}, [&] { checkpoint::parse_safetensors(as_bytes(file), "f"); });
  }
  for (const std::string& deep : {"a = " + std::string(1 << 19, '['), "a" + std::string(1 << 19, '.') + "b = 1",
                                  std::string(1 << 19, '['), "a = " + std::string(1 << 19, '{')}) {
    expect_refused_in_little_memory({ExitCode::kUsage}, [&] { config::read_run_config(deep, "deep.toml"); });
  }
}

// 127 levels are read, 128 are not, whatever the brackets are.
TEST(HostileSizes, NestingLimitIsExact) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(accepted({}, [&] { parse_json(nested(kMaxJsonDepth - 1), "f"); }));
  EXPECT_FALSE(accepted({ExitCode::kCorrupt}, [&] { parse_json(nested(kMaxJsonDepth), "f"); }));
}

TEST(HostileSizes, HeaderLengths) {
  for (int shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t size :
         {std::uint64_t{1} << shift, (std::uint64_t{1} << shift) - 1, ~std::uint64_t{0} << shift}) {
      if (size == 2) continue;  // the true one
      const std::string file = prefixed(size, "{}");
      expect_refused_in_little_memory({ExitCode::kCorrupt}, [&] { checkpoint::parse_safetensors(as_bytes(file), "f"); });
    }
  }
}

// Shapes whose product leaves 64 bits, or returns to the right size behind them.
TEST(HostileSizes, ShapeProducts) {
  for (const char* shape :
       {"[4294967296,4294967296]", "[9223372036854775807,2]", "[9223372036854775807,3,8]", "[18446744073709551615]",
        "[4294967297,4294967296,1]", "[2305843009213693952,8]", "[65536,65536,65536,65536]", "[288230376151711745]",
        "[1,18446744073709551615,18446744073709551615]"}) {
    for (const char* end : {"0", "8", "18446744073709551608"}) {
      const std::string header = fmt::format(R"({{"a":{{"dtype":"F64","shape":{},"data_offsets":[0,{}]}}}})", shape, end);
      const std::string data(std::string_view(end) == "8" ? 8 : 0, 'x');  // as many bytes as a product that wraps says
      const std::string file = prefixed(header.size(), header) + data;
      expect_refused_in_little_memory({ExitCode::kCorrupt}, [&] { checkpoint::parse_safetensors(as_bytes(file), "f"); });
    }
  }
}

}  // namespace
}  // namespace ida::fuzz

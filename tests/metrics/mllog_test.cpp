#include "metrics/mllog.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "temp_folder.h"

namespace ida::metrics {
namespace {

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> objects;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    EXPECT_EQ(line.rfind(":::MLLOG ", 0), 0u) << line;
    objects.push_back(nlohmann::json::parse(line.substr(9)));
  }
  return objects;
}

TEST(Mllog, LinesCarryWhatTheCheckerNeeds) {
  const TempFolder folder;
  const std::string path = folder.file("mllog.txt");
  {
    MllogWriter log(path);
    log.write(MllogEvent::kStart, "run_start", std::monostate{});
    log.write(MllogEvent::kPoint, "eval_accuracy", 3.25, {{"samples_count", std::int64_t{1024}}});
    log.write(MllogEvent::kEnd, "run_stop", std::monostate{}, {{"status", std::string("success")}});
  }
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 3u);
  for (const auto& line : lines) {
    EXPECT_EQ(line.at("namespace"), "");
    EXPECT_TRUE(line.at("time_ms").is_number_integer());
    EXPECT_GT(line.at("time_ms").get<std::int64_t>(), 1'600'000'000'000);
    EXPECT_EQ(line.at("metadata").at("file"), "mllog_test.cpp");
    EXPECT_GT(line.at("metadata").at("lineno").get<int>(), 0);
  }
  EXPECT_EQ(lines[0].at("event_type"), "INTERVAL_START");
  EXPECT_TRUE(lines[0].at("value").is_null());
  EXPECT_EQ(lines[1].at("event_type"), "POINT_IN_TIME");
  EXPECT_EQ(lines[1].at("key"), "eval_accuracy");
  EXPECT_EQ(lines[1].at("value"), 3.25);
  EXPECT_EQ(lines[1].at("metadata").at("samples_count"), 1024);
  EXPECT_EQ(lines[2].at("event_type"), "INTERVAL_END");
  EXPECT_EQ(lines[2].at("metadata").at("status"), "success");
}

TEST(Mllog, StaysValidJsonForAnyValue) {
  const TempFolder folder;
  const std::string path = folder.file("mllog.txt");
  {
    MllogWriter log(path);
    log.write(MllogEvent::kPoint, "a\"b", std::numeric_limits<double>::quiet_NaN());
    log.write(MllogEvent::kPoint, "b", -std::numeric_limits<double>::infinity());
    log.write(MllogEvent::kPoint, "c", std::string("line\nend"));
    log.write(MllogEvent::kPoint, "d", true);
  }
  MllogWriter(path).write(MllogEvent::kPoint, "e", std::int64_t{-5});
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].at("key"), "a\"b");
  EXPECT_EQ(lines[0].at("value"), "nan");
  EXPECT_EQ(lines[1].at("value"), "-inf");
  EXPECT_EQ(lines[2].at("value"), "line\nend");
  EXPECT_EQ(lines[3].at("value"), true);
  EXPECT_EQ(lines[4].at("value"), -5);
}

}  // namespace
}  // namespace ida::metrics

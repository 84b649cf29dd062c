#include "metrics/metrics_jsonl.h"

#include <gtest/gtest.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"
#include "metrics/json_text.h"
#include "temp_folder.h"

namespace ida::metrics {
namespace {

using Json = nlohmann::json;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

MetricsRecord record_at(std::int64_t step) {
  MetricsRecord record{.step = step, .tokens = step * 64, .values = {}};
  record.set(kLoss, 8.0 / static_cast<double>(step + 1));
  return record;
}

std::vector<std::int64_t> steps_in(const std::string& path) {
  std::vector<std::int64_t> steps;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) steps.push_back(Json::parse(line).at("step").get<std::int64_t>());
  return steps;
}

ExitCode code_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kDone;
}

TEST(MetricsLine, KeepsTheOrderAndPrintsIntegersAsIntegers) {
  MetricsRecord record{.step = 12, .tokens = 9007199254740993, .values = {}};
  record.set(kLoss, 4.125);
  record.set(kLr, 3e-4);
  record.set("documents", 17.0);
  record.set("big", 1e300);
  record.set("zero", -0.0);
  EXPECT_EQ(to_json_line(record),
            R"({"step":12,"tokens":9007199254740993,"loss":4.125,"lr":3e-04,"documents":17,"big":1e+300,"zero":-0.0})");
}

TEST(MetricsLine, IsValidJsonWithNonFiniteValuesNamed) {
  MetricsRecord record{.step = 3, .tokens = 5, .values = {}};
  record.set(kLoss, kNan);
  record.set(kLr, 0.5);
  record.set(kGradNorm, -kInf);
  const std::string line = to_json_line(record);
  const Json object = Json::parse(line);
  EXPECT_EQ(object.at("non_finite"), Json::array({"loss", "grad_norm"}));
  EXPECT_FALSE(object.contains("loss"));
  EXPECT_FALSE(object.contains("grad_norm"));
  EXPECT_EQ(object.at("lr"), 0.5);
  EXPECT_EQ(line.find("null"), std::string::npos);
}

TEST(MetricsLine, EscapesKeysAndReplacesBytesThatAreNotUtf8) {
  MetricsRecord record;
  record.set("val_loss/a\"b\\c\n", 1.0);
  record.set("val_loss/\xff", kNan);
  const Json object = Json::parse(to_json_line(record));
  EXPECT_EQ(object.at("val_loss/a\"b\\c\n"), 1);
  EXPECT_EQ(object.at("non_finite").at(0), "val_loss/\xEF\xBF\xBD");
}

TEST(JsonNumber, ReadsBackToTheSameDouble) {
  std::mt19937_64 bits(7);
  for (int i = 0; i < 20000; ++i) {
    const auto value = std::bit_cast<double>(bits());
    if (!std::isfinite(value)) continue;
    std::string text;
    append_json_number(text, value);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(Json::parse(text).get<double>()), std::bit_cast<std::uint64_t>(value)) << text;
    char longest[40];
    std::snprintf(longest, sizeof longest, "%.17g", value);
    EXPECT_LE(text.size(), std::string(longest).size());
  }
}

TEST(MetricsJsonl, EachLineIsInTheFileAtOnce) {
  const TempFolder folder;
  MetricsJsonl sink(folder.file("metrics.jsonl"), -1, 0);
  for (const std::int64_t step : {0, 1, 5}) {
    sink.write(record_at(step));
    EXPECT_EQ(steps_in(folder.file("metrics.jsonl")).back(), step);
  }
}

TEST(MetricsJsonl, ResumeCutsLaterStepsAndATornLine) {
  const TempFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  {
    MetricsJsonl sink(path, -1);
    for (std::int64_t step = 1; step <= 9; ++step) sink.write(record_at(step));
  }
  const std::string whole = read_file(path);
  write_file_atomic(path, whole + R"({"step":10,"tok)");
  {
    MetricsJsonl sink(path, 6);
    EXPECT_EQ(sink.last_step(), 6);
    sink.write(record_at(7));
  }
  EXPECT_EQ(steps_in(path), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7}));
}

TEST(MetricsJsonl, AStepNeverAppearsTwice) {
  const TempFolder folder;
  MetricsJsonl sink(folder.file("metrics.jsonl"), -1);
  sink.write(record_at(4));
  EXPECT_EQ(code_of([&] { sink.write(record_at(4)); }), ExitCode::kRuntime);
  EXPECT_EQ(code_of([&] { sink.write(record_at(3)); }), ExitCode::kRuntime);
  EXPECT_EQ(steps_in(folder.file("metrics.jsonl")), (std::vector<std::int64_t>{4}));
}

TEST(TruncateMetrics, HandlesEveryTearOfTheLastLine) {
  const TempFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const std::string kept = to_json_line(record_at(1)) + "\n" + to_json_line(record_at(2)) + "\n";
  const std::string last = to_json_line(record_at(3)) + "\n";
  for (std::size_t size = 0; size < last.size(); ++size) {
    write_file_atomic(path, kept + last.substr(0, size));
    EXPECT_EQ(truncate_metrics_after(path, 100), 2) << size;
    EXPECT_EQ(read_file(path), kept) << size;
  }
  write_file_atomic(path, kept + last);
  EXPECT_EQ(truncate_metrics_after(path, 3), 3);
  EXPECT_EQ(read_file(path), kept + last);
}

TEST(TruncateMetrics, MissingEmptyAndFresh) {
  const TempFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  EXPECT_EQ(truncate_metrics_after(path, 5), -1);
  EXPECT_FALSE(path_exists(path));
  write_file_atomic(path, std::string_view());
  EXPECT_EQ(truncate_metrics_after(path, 5), -1);
  write_file_atomic(path, to_json_line(record_at(0)) + "\n");
  EXPECT_EQ(truncate_metrics_after(path, -1), -1);
  EXPECT_EQ(read_file(path), "");
}

TEST(TruncateMetrics, DamageBeforeTheEndIsNamed) {
  const TempFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  write_file_atomic(path, to_json_line(record_at(1)) + "\nrubbish\n" + to_json_line(record_at(2)) + "\n");
  try {
    truncate_metrics_after(path, 5);
    FAIL() << "damage was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCorrupt);
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

TEST(ReadMetrics, GivesBackWhatWasWritten) {
  const TempFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsRecord record{.step = 7, .tokens = 99, .values = {}};
  record.set("z", 0.1);
  record.set(kLoss, kInf);
  record.set("a", 3.0);
  {
    MetricsJsonl sink(path, -1);
    sink.write(record);
  }
  const MetricsLog log = read_metrics(path);
  ASSERT_EQ(log.records.size(), 1u);
  const MetricsRecord& got = log.records[0];
  EXPECT_EQ(got.step, 7);
  EXPECT_EQ(got.tokens, 99);
  ASSERT_EQ(got.values.size(), 3u);
  EXPECT_EQ(got.values[0], std::make_pair(std::string("z"), 0.1));
  EXPECT_EQ(got.values[1], std::make_pair(std::string("a"), 3.0));
  EXPECT_TRUE(std::isnan(*got.find(kLoss)));
  EXPECT_EQ(log.num_unreadable_lines, 0);
  EXPECT_FALSE(log.last_line_torn);
}

TEST(ReadMetrics, CountsWhatItCannotRead) {
  const TempFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  EXPECT_TRUE(read_metrics(path).records.empty());
  write_file_atomic(path, to_json_line(record_at(1)) + "\n[1]\n" + to_json_line(record_at(2)) + "\n{\"step\":");
  const MetricsLog log = read_metrics(path);
  EXPECT_EQ(log.records.size(), 2u);
  EXPECT_EQ(log.num_unreadable_lines, 2);
  EXPECT_TRUE(log.last_line_torn);
}

// A disk that takes ten bytes of a line and then none.
TEST(MetricsJsonl, AFullDiskLeavesNoHalfLine) {
  const TempFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsJsonl sink(path, -1);
  sink.write(record_at(1));
  const std::string before = read_file(path);

  static int calls = 0;
  calls = 0;
  FileOps ops = system_file_ops();
  ops.write = [](int fd, const void* data, std::size_t) -> ssize_t {
    if (calls++ == 0) return system_file_ops().write(fd, data, 10);
    errno = ENOSPC;
    return -1;
  };
  const FileOps former = replace_file_ops(ops);
  const ExitCode code = code_of([&] { sink.write(record_at(2)); });
  replace_file_ops(former);

  EXPECT_EQ(code, ExitCode::kRuntime);
  EXPECT_EQ(read_file(path), before);
  sink.write(record_at(3));  // what the disk did not take comes first
  EXPECT_EQ(steps_in(path), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(MetricsJsonl, SyncsEveryNthLine) {
  const TempFolder folder;
  static int syncs = 0;
  syncs = 0;
  FileOps ops = system_file_ops();
  ops.fsync = [](int) { return ++syncs, 0; };
  const FileOps former = replace_file_ops(ops);
  {
    MetricsJsonl sink(folder.file("metrics.jsonl"), -1, 3);
    for (std::int64_t step = 1; step <= 7; ++step) sink.write(record_at(step));
    EXPECT_EQ(syncs, 2);
  }
  EXPECT_EQ(syncs, 3);  // the seventh line, at the end
  replace_file_ops(former);
}

}  // namespace
}  // namespace ida::metrics

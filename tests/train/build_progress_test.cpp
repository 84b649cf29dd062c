#include "train/build_progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ida::train {
namespace {

data::BuildReport report(std::int64_t read_bytes) {
  data::BuildReport report;
  report.read_bytes = read_bytes;
  report.total_bytes = 1000;
  report.num_documents = read_bytes / 10;
  report.num_tokens = read_bytes / 2;
  report.num_parts = 2;
  return report;
}

TEST(BuildProgress, CountsOnlyThisStartForSpeedAndEta) {
  EXPECT_EQ(format_build_progress("d.shard", report(200), report(200), 0.0),
            "d.shard  20.0%  20 documents  100 tokens  2 parts");
  EXPECT_EQ(format_build_progress("d.shard", report(200), report(400), 10.0),
            "d.shard  40.0%  40 documents  200 tokens  2 parts  10 tok/s  eta 30s");
  data::BuildReport unknown = report(400);
  unknown.total_bytes = 0;
  EXPECT_EQ(format_build_progress("d.shard", report(200), unknown, 10.0),
            "d.shard  40 documents  200 tokens  2 parts  10 tok/s");
}

std::string shown(bool terminal, const std::vector<double>& times_s) {
  int ends[2];
  if (::pipe(ends) != 0) return "pipe failed";
  {
    BuildProgressLine line("d",
                           {.fd = ends[1], .terminal = terminal, .terminal_interval_s = 0.5, .plain_interval_s = 10.0});
    for (std::size_t i = 0; i < times_s.size(); ++i) line.update(report(static_cast<std::int64_t>(i) * 100), times_s[i]);
  }
  ::close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(ends[0], text.data(), text.size()), 0)));
  ::close(ends[0]);
  return text;
}

TEST(BuildProgress, OneLineOnATerminalPlainLinesElsewhere) {
  EXPECT_EQ(shown(false, {0, 3, 9.9}), "") << "a short build says nothing";
  const std::string plain = shown(false, {0, 5, 10, 15, 20});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '\n'), 2) << plain;
  EXPECT_EQ(plain.find('\r'), std::string::npos);
  const std::string terminal = shown(true, {0, 0.4, 0.6, 0.7, 1.2});
  EXPECT_EQ(std::count(terminal.begin(), terminal.end(), '\r'), 2) << terminal;
  EXPECT_EQ(std::count(terminal.begin(), terminal.end(), '\n'), 1) << terminal;
}

}  // namespace
}  // namespace ida::train

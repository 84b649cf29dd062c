#include "report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ida::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(NiceTicks, AreRoundAndCoverTheData) {
  const std::vector<double> loss = nice_ticks(2.9, 9.1, 5);
  EXPECT_EQ(loss, (std::vector<double>{2, 4, 6, 8, 10}));
  EXPECT_EQ(nice_ticks(0, 600, 7), (std::vector<double>{0, 100, 200, 300, 400, 500, 600}));
  for (const double scale : {1e-12, 1e-4, 0.3, 1.0, 7.7e5, 1e200}) {
    for (const double low : {-1.3, 0.0, 0.7}) {
      const auto ticks = nice_ticks(low * scale, (low + 2.1) * scale, 5);
      ASSERT_GE(ticks.size(), 3u);
      ASSERT_LE(ticks.size(), 8u);
      EXPECT_LE(ticks.front(), low * scale + 1e-8 * scale);
      EXPECT_GE(ticks.back(), (low + 2.1) * scale - 1e-8 * scale);
      const double step = ticks[1] - ticks[0];
      const double mantissa = step / std::pow(10.0, std::floor(std::log10(step) + 1e-9));
      EXPECT_TRUE(std::abs(mantissa - 1) < 1e-6 || std::abs(mantissa - 2) < 1e-6 || std::abs(mantissa - 5) < 1e-6) << step;
    }
  }
}

TEST(NiceTicks, OneValueGetsAnAxisAllTheSame) {
  for (const double value : {0.0, 3.5, -2.0, 1e-9, 1e12}) {
    const auto ticks = nice_ticks(value, value, 5);
    ASSERT_GE(ticks.size(), 2u);
    EXPECT_LT(ticks.front(), value);
    EXPECT_GT(ticks.back(), value);
  }
  const auto close = nice_ticks(1.0, 1.0 + 1e-15, 5);
  EXPECT_LT(close.front(), close.back());
}

TEST(TickLabels, TellTheTicksApart) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(tick_labels({2, 4, 6}), (Labels{"2", "4", "6"}));
  EXPECT_EQ(tick_labels({3.0, 3.05, 3.1}), (Labels{"3.00", "3.05", "3.10"}));
  EXPECT_EQ(tick_labels({0, 0.0001, 0.0002}), (Labels{"0", "0.0001", "0.0002"}));
  EXPECT_EQ(tick_labels({0, 2e-6, 4e-6}), (Labels{"0", "2e-06", "4e-06"}));
  EXPECT_EQ(tick_labels({0, 20000, 40000}), (Labels{"0", "20.0k", "40.0k"}));
  EXPECT_EQ(tick_labels({100000, 100200}), (Labels{"100000", "100200"}));
}

TEST(Thin, KeepsSpikesGapsAndEnds) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100000; ++i) points.emplace_back(i, std::sin(i * 0.001));
  points[54321].second = 50.0;
  points[77777].second = kNan;
  const auto kept = thin(points, 1000);
  EXPECT_LE(kept.size(), 1002u);
  EXPECT_EQ(kept.front().first, 0);
  EXPECT_EQ(kept.back().first, 99999);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end(), [](auto& a, auto& b) { return a.first < b.first; }));
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(), [](auto& point) { return point.second == 50.0; }));
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(), [](auto& point) { return std::isnan(point.second); }));
  EXPECT_EQ(thin({{1, 2}, {3, 4}}, 1000).size(), 2u);
}

TEST(Render, ACurveSpansTheFrame) {
  const std::string svg = render({.title = "L", .x_name = "step", .series = {{"a", {{0, 0}, {10, 10}}, false}}});
  // 340 x 210 with margins 58, 14, 12, 36: (0,0) is bottom left, (10,10) top right.
  EXPECT_NE(svg.find("points=\"58.0,174.0 326.0,12.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find(">10</text>"), std::string::npos);
  EXPECT_NE(svg.find("<span class=\"legend\">last 10</span>"), std::string::npos);
}

TEST(Render, NotFiniteBreaksTheLine) {
  const std::string svg =
      render({.title = "L",
              .x_name = "step",
              .series = {{"a", {{0, 1}, {1, 2}, {2, kNan}, {3, 1}, {4, 2}, {5, INFINITY}, {6, 1}}, false}}});
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(count(svg, "<circle"), 1u);  // the last value stands alone
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
}

TEST(Render, OnePointIsADotAndNoPointIsSaid) {
  const std::string one = render({.title = "L", .x_name = "step", .series = {{"a", {{7, 3}}, false}}});
  EXPECT_EQ(count(one, "<circle"), 1u);
  EXPECT_EQ(count(one, "<polyline"), 0u);
  EXPECT_EQ(one.find("nan"), std::string::npos) << one;
  for (const auto& series : {Series{"a", {}, false}, Series{"a", {{1, kNan}}, false}}) {
    const std::string none = render({.title = "L", .x_name = "step", .series = {series}});
    EXPECT_NE(none.find("No values recorded"), std::string::npos);
    EXPECT_EQ(none.find("<svg"), std::string::npos);
  }
}

TEST(Render, MarkersAndEscaping) {
  const std::string svg =
      render({.title = "<L>", .x_name = "a&b", .series = {{"v<1>", {{0, 1}, {1, 2}}, true}}, .wide = true});
  EXPECT_EQ(count(svg, "<circle"), 2u);
  EXPECT_NE(svg.find("<title>v&lt;1&gt; 1: 2</title>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("<L>"), std::string::npos);
  EXPECT_NE(svg.find("a&amp;b"), std::string::npos);
}

TEST(Render, HugeValuesStayInsideTheDrawing) {
  const std::string svg =
      render({.title = "L", .x_name = "step", .series = {{"a", {{0, -1.7e308}, {1, 1.7e308}, {2, 5}}, false}}});
  EXPECT_EQ(count(svg, "<circle"), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
}

}  // namespace
}  // namespace ida::report

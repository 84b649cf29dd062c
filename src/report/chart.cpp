#include "report/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/progress_line.h"
#include "report/html.h"

namespace ida::report {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr int kNumColours = 6;
constexpr std::size_t kMaxPoints = 1200;

// Beyond this the span of two values could overflow; a loss that large is as lost as an infinite one.
bool drawable(double y) { return std::abs(y) < 1e300; }

// The drawing in user units and what it shows.
struct Frame {
  double width, height;
  double left = 58, right = 14, top = 12, bottom = 36;
  double x0, x1, y0, y1;  // data limits
  double px(double x) const { return left + (x - x0) / (x1 - x0) * (width - left - right); }
  double py(double y) const { return height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom); }
};

struct Limits {
  double x0 = std::numeric_limits<double>::infinity(), x1 = -x0, y0 = x0, y1 = -x0;
  bool empty() const { return x0 > x1; }
};

Limits limits_of(const Chart& chart) {
  Limits limits;
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      if (!drawable(y)) continue;
      limits.x0 = std::min(limits.x0, x);
      limits.x1 = std::max(limits.x1, x);
      limits.y0 = std::min(limits.y0, y);
      limits.y1 = std::max(limits.y1, y);
    }
  }
  return limits;
}

std::string axes(const Frame& frame, const std::vector<double>& x_ticks, const std::vector<double>& y_ticks,
                 const std::string& x_name) {
  std::string out;
  const auto y_labels = tick_labels(y_ticks);
  for (std::size_t i = 0; i < y_ticks.size(); ++i) {
    const double y = frame.py(y_ticks[i]);
    out += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>", frame.left, y,
                       frame.width - frame.right);
    out +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", frame.left - 6, y + 4, y_labels[i]);
  }
  const auto x_labels = tick_labels(x_ticks);
  for (std::size_t i = 0; i < x_ticks.size(); ++i) {
    if (x_ticks[i] < frame.x0 || x_ticks[i] > frame.x1) continue;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", frame.px(x_ticks[i]),
                       frame.height - frame.bottom + 16, x_labels[i]);
  }
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                     (frame.left + frame.width - frame.right) / 2, frame.height - 4, escape(x_name));
  return out;
}

// One polyline a stretch of finite values; a stretch of one point is a dot.
std::string curve(const Frame& frame, const Series& series, int colour) {
  std::string out, stretch;
  int num_in_stretch = 0;
  double last_x = 0, last_y = 0;
  const auto end_stretch = [&] {
    if (num_in_stretch == 1)
      out +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" style=\"fill:var(--c{})\"/>\n", last_x, last_y, colour);
    if (num_in_stretch > 1)
      out += fmt::format("<polyline class=\"curve\" style=\"stroke:var(--c{})\" points=\"{}\"/>\n", colour, stretch);
    stretch.clear();
    num_in_stretch = 0;
  };
  for (const auto& [x, y] : thin(series.points, kMaxPoints)) {
    if (!drawable(y)) {
      end_stretch();
      continue;
    }
    last_x = frame.px(x);
    last_y = frame.py(y);
    stretch += fmt::format("{}{:.1f},{:.1f}", num_in_stretch == 0 ? "" : " ", last_x, last_y);
    ++num_in_stretch;
  }
  end_stretch();
  constexpr std::size_t kMaxMarkers = 200;
  if (!series.markers || series.points.size() > kMaxMarkers) return out;
  for (const auto& [x, y] : series.points) {
    if (!drawable(y)) continue;
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" style=\"fill:var(--c{})\"><title>{} {:.5g}: {:.5g}"
        "</title></circle>\n",
        frame.px(x), frame.py(y), colour, escape(series.name), x, y);
  }
  return out;
}

// A lone series is the title's own and needs no swatch.
std::string legend(const Chart& chart) {
  std::string out;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    if (series.points.empty()) continue;
    std::string name;
    if (chart.series.size() > 1)
      name = fmt::format("<span class=\"swatch\" style=\"background:var(--c{})\"></span>{}, ", i % kNumColours,
                         escape(series.name));
    out += fmt::format("<span class=\"legend\">{}last {:.5g}</span>", name, series.points.back().second);
  }
  return out;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int num_wanted) {
  // A span of a few last places would put all ticks on one double.
  constexpr double kLeastSpan = 1e-9;
  if (!(high - low > kLeastSpan * std::max(std::abs(low), std::abs(high)))) {
    const double pad = low == 0 ? 1.0 : std::abs(low) * 0.1;
    high = low + pad;
    low -= pad;
  }
  const double raw = (high - low) / std::max(1, num_wanted - 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double fraction = raw / power;
  const double step = power * (fraction <= 1.0 ? 1.0 : fraction <= 2.0 ? 2.0 : fraction <= 5.0 ? 5.0 : 10.0);
  // A limit that sits on a tick up to rounding needs no further tick beyond it.
  constexpr double kSlack = 1e-9;
  const auto first = static_cast<long long>(std::floor(low / step + kSlack));
  const auto last = static_cast<long long>(std::ceil(high / step - kSlack));
  std::vector<double> ticks;
  for (long long i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::vector<std::string> tick_labels(const std::vector<double>& ticks) {
  const double largest = std::max(std::abs(ticks.front()), std::abs(ticks.back()));
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : largest;
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::vector<std::string> labels;
  for (const double tick : ticks) {
    if (tick == 0) {
      labels.push_back("0");
    } else if (largest >= 1e4 && step < largest / 200) {
      labels.push_back(fmt::format("{:.10g}", tick));
    } else if (largest >= 1e4) {
      labels.push_back(metrics::format_si(tick));
    } else if (decimals > 4) {
      labels.push_back(fmt::format("{:.3g}", tick));
    } else {
      labels.push_back(fmt::format("{:.{}f}", tick, decimals));
    }
  }
  return labels;
}

Points thin(const Points& points, std::size_t max_points) {
  if (points.size() <= max_points) return points;
  const std::size_t num_stretches = std::max<std::size_t>(1, max_points / 2);
  Points kept;
  for (std::size_t s = 0; s < num_stretches; ++s) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * s / num_stretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (s + 1) / num_stretches);
    // A value that is not finite must stay a gap.
    const auto gap = std::find_if(begin, end, [](const auto& point) { return !drawable(point.second); });
    if (gap != end) {
      kept.push_back(*gap);
      continue;
    }
    auto [low, high] = std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  if (kept.front().first != points.front().first) kept.insert(kept.begin(), points.front());
  if (kept.back().first != points.back().first) kept.push_back(points.back());
  return kept;
}

std::string render(const Chart& chart) {
  const Limits limits = limits_of(chart);
  std::string out = fmt::format("<figure{}><figcaption>{}{}</figcaption>\n", chart.wide ? " class=\"wide\"" : "",
                                escape(chart.title), legend(chart));
  if (limits.empty()) return out + "<p class=\"muted\">No values recorded.</p></figure>\n";
  const auto y_ticks = nice_ticks(limits.y0, limits.y1, 5);
  const auto x_ticks = nice_ticks(limits.x0, limits.x1, chart.wide ? 9 : 5);
  Frame frame{};
  frame.width = chart.wide ? 1020 : 340;
  frame.height = chart.wide ? 340 : 210;
  frame.left = 58, frame.right = 14, frame.top = 12, frame.bottom = 36;
  // The x axis ends with the data; a single step has the widened axis to itself.
  const bool one_step = limits.x0 == limits.x1;
  frame.x0 = one_step ? x_ticks.front() : limits.x0;
  frame.x1 = one_step ? x_ticks.back() : limits.x1;
  frame.y0 = y_ticks.front();
  frame.y1 = y_ticks.back();
  out += fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", frame.width, frame.height,
                     escape(chart.title));
  out += axes(frame, x_ticks, y_ticks, chart.x_name);
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    out += curve(frame, chart.series[i], static_cast<int>(i % kNumColours));
  return out + "</svg></figure>\n";
}

}  // namespace ida::report

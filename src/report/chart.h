// Line charts as inline SVG: linear axes with round tick values, colours from the page's style sheet.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace ida::report {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x rising; a y that is not finite breaks the line
  bool markers = false;                           // a dot with its value at every point
};

struct Chart {
  std::string title;
  std::string x_name;
  std::vector<Series> series;  // six colours, then again from the first
  bool wide = false;           // the whole width of the page
};

// Round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high]: at least two, about `num_wanted`.
// Equal or reversed limits are widened around the value.
std::vector<double> nice_ticks(double low, double high, int num_wanted);
// Labels with as many decimals as tell the ticks apart, SI prefixes from 10,000 on, exponents below 0.0001.
std::vector<std::string> tick_labels(const std::vector<double>& ticks);

// At most about `max_points` points that keep the least and the greatest value of every stretch, so spikes stay visible.
std::vector<std::pair<double, double>> thin(const std::vector<std::pair<double, double>>& points, std::size_t max_points);

// A <figure>; without any finite point it says so.
std::string render(const Chart& chart);

}  // namespace ida::report

#include "eval/cliff.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/rng.h"
#include "formats/block_rules.h"
#include "precision/host_quantize.h"

namespace ida::eval {
namespace {

constexpr std::int64_t kSide = 1024;
constexpr std::int64_t kValues = kSide * kSide;
constexpr std::uint64_t kOutlierEvery = 100000;
constexpr float kOutlierFactor = 1000.0f;

struct Draw {
  std::vector<float> normal;
  std::vector<bool> outlier;
};

Draw draw(const CliffOptions& options) {
  Draw d{.normal = std::vector<float>(kValues), .outlier = std::vector<bool>(kValues)};
  parallel_for(kValues, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      d.normal[static_cast<std::size_t>(i)] = normal_at(options.seed, 0, static_cast<std::uint64_t>(i));
  });
  if (!options.outliers) return d;
  for (std::size_t i = 0; i < d.normal.size(); ++i) {
    d.outlier[i] = bounded_at(options.seed, 1, i, kOutlierEvery) == 0;
    if (d.outlier[i]) d.normal[i] *= kOutlierFactor;
  }
  return d;
}

struct Sums {
  double error = 0.0, square = 0.0, zeros = 0.0, count = 0.0;
  void add(float x, float value) {
    const double difference = static_cast<double>(value) - static_cast<double>(x);
    error += difference * difference;
    square += static_cast<double>(x) * static_cast<double>(x);
    zeros += x != 0.0f && value == 0.0f ? 1.0 : 0.0;
    count += x != 0.0f ? 1.0 : 0.0;
  }
  double relative_error() const { return square > 0.0 ? std::sqrt(error / square) : 0.0; }
  double zero_fraction() const { return count > 0.0 ? zeros / count : 0.0; }
};

}  // namespace

std::vector<CliffRow> probe_cliff(const CliffOptions& options, runtime::Device& device, const ops::Backend& backend) {
  const Draw values = draw(options);
  std::vector<CliffRow> rows;
  for (int decade = 0; decade <= 7; ++decade) {
    CliffRow row{.magnitude = std::pow(10.0, -decade)};
    std::vector<float> x(values.normal.size());
    formats::Amax amax = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(row.magnitude) * values.normal[i];
      amax = std::max(amax, formats::magnitude_bits(x[i]));
    }
    precision::HostQuantizeOptions quantize;
    if (options.prescale) {
      row.prescale_exponent = formats::prescale_exponent(amax);
      quantize.prescale = row.prescale_exponent;
    }
    const precision::HostQuantized got =
        precision::host_quantize(device, backend, x, kSide, kSide, options.format, quantize);
    Sums all, inliers;
    for (std::size_t i = 0; i < x.size(); ++i) {
      all.add(x[i], got.values[i]);
      if (!values.outlier[i]) inliers.add(x[i], got.values[i]);
    }
    row.relative_error = all.relative_error();
    row.zero_fraction = all.zero_fraction();
    row.inlier_relative_error = inliers.relative_error();
    row.inlier_zero_fraction = inliers.zero_fraction();
    rows.push_back(row);
  }
  return rows;
}

}  // namespace ida::eval

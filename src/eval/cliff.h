// Where a format stops seeing values: the error of quantising normal values of ever smaller magnitude.
#pragma once
#include <vector>

#include "formats/quant_format.h"
#include "ops/backend.h"
#include "runtime/device.h"

namespace ida::eval {

struct CliffOptions {
  formats::QuantFormat format = {};
  bool prescale = false;  // by 2^round(log2(4 / amax)) of the values themselves
  bool outliers = false;  // one value in 100,000 is multiplied by 1,000
  std::uint64_t seed = 1;
};

struct CliffRow {
  double magnitude = 0.0;
  double relative_error = 0.0;  // norm of Q(x) - x over norm of x
  double zero_fraction = 0.0;   // of values that are not 0 and become 0
  // The same over the values that are not outliers.
  double inlier_relative_error = 0.0;
  double inlier_zero_fraction = 0.0;
  int prescale_exponent = 0;
};

// Magnitudes 1, 1e-1 ... 1e-7 times N(0, 1), [1024, 1024] values each, the same draw for all.
std::vector<CliffRow> probe_cliff(const CliffOptions& options, runtime::Device& device, const ops::Backend& backend);

}  // namespace ida::eval

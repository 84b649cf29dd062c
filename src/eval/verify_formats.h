// Compares what a device's quantise makes of given matrices with given codes and scales, bit for bit.
//
// The file is safetensors: `<set>.x` f32 [rows, cols]; for each `<set>.<format>.<mode>` that is there `.q` u8 [rows, cols],
// one code a byte, with `.scale_ue8m0` u8 [rows, ceil(cols / 32)] or `.scale_e4m3` u8 [rows, ceil(cols / 16)] and
// `.global` f32 [1]. Formats and modes: mxfp8, mxfp8_e5m2, mxfp4 with floor, ceil; nvfp4 with single_level, two_level.
#pragma once
#include <string>
#include <vector>

#include "ops/backend.h"
#include "runtime/device.h"

namespace ida::eval {

struct FormatCheck {
  std::string name;  // "normal.mxfp8.ceil"
  std::int64_t num_codes = 0;
  std::int64_t num_scales = 0;  // the tensor's among them
  std::int64_t wrong_codes = 0;
  std::int64_t wrong_scales = 0;
  std::string first = {};  // the first difference; empty where there is none
  bool passed() const { return wrong_codes == 0 && wrong_scales == 0; }
};

// Errors: kCorrupt for a file that is not as above, or that holds nothing to compare.
std::vector<FormatCheck> verify_formats(const std::string& path, runtime::Device& device, const ops::Backend& backend);

}  // namespace ida::eval

#include "eval/verify_formats.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "precision/host_quantize.h"

namespace ida::eval {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::TensorSpan;
using formats::QuantFormat;
using formats::ScaleGrid;

struct Case {
  std::string name;  // set, format, mode
  std::string set;
  QuantFormat format;
};

std::optional<QuantFormat> format_of(std::string_view name, std::string_view mode) {
  std::optional<QuantFormat> format = formats::format_of_name(name);
  if (!format) return std::nullopt;
  if (format->grid == ScaleGrid::kMx32 && (mode == "floor" || mode == "ceil")) {
    format->scale_rule = mode == "floor" ? formats::ScaleRule::kFloor : formats::ScaleRule::kCeil;
    return format;
  }
  if (format->grid == ScaleGrid::kNv16 && (mode == "single_level" || mode == "two_level")) {
    format->two_level = mode == "two_level";
    return format;
  }
  return std::nullopt;
}

// A case for every `.q`; every other tensor must belong to one.
std::vector<Case> cases_of(const SafetensorsFile& file) {
  std::vector<Case> cases;
  for (const TensorSpan& tensor : file.tensors()) {
    const std::string& name = tensor.name;
    const std::size_t last = name.rfind('.');
    const std::string suffix = last == std::string::npos ? name : name.substr(last + 1);
    if (suffix == "x") continue;
    const std::size_t second = last == std::string::npos || last == 0 ? std::string::npos : name.rfind('.', last - 1);
    const std::size_t first = second == std::string::npos || second == 0 ? std::string::npos : name.rfind('.', second - 1);
    const bool known = suffix == "q" || suffix == "scale_ue8m0" || suffix == "scale_e4m3" || suffix == "global";
    if (!known || first == std::string::npos || first == 0)
      fail_corrupt("{}: tensor '{}': expected SET.x, or SET.FORMAT.MODE with .q, .scale_ue8m0, .scale_e4m3 or .global",
                   file.path(), name);
    const std::string format_text = name.substr(first + 1, second - first - 1);
    const std::string mode = name.substr(second + 1, last - second - 1);
    const std::optional<QuantFormat> format = format_of(format_text, mode);
    if (!format)
      fail_corrupt(
          "{}: tensor '{}': no format '{}' with mode '{}'; there are mxfp8, mxfp8_e5m2, mxfp4 with floor and ceil, nvfp4 "
          "with single_level and two_level",
          file.path(), name, format_text, mode);
    const bool nvfp4 = format->grid == ScaleGrid::kNv16;
    if (suffix != "q" && (suffix == "scale_ue8m0") == nvfp4)
      fail_corrupt("{}: tensor '{}': {} has no .{}", file.path(), name, format_text, suffix);
    const std::string base = name.substr(0, last);
    if (file.find(base + ".q") == nullptr) fail_corrupt("{}: tensor '{}': '{}.q' is missing", file.path(), name, base);
    if (suffix == "q") cases.push_back({base, name.substr(0, first), *format});
  }
  if (cases.empty()) fail_corrupt("{}: nothing to compare, no tensor SET.FORMAT.MODE.q", file.path());
  return cases;
}

const TensorSpan& require(const SafetensorsFile& file, const std::string& name, std::string_view dtype,
                          const std::vector<std::int64_t>& shape) {
  const TensorSpan& tensor = file.require(name);
  if (tensor.dtype_name() != dtype || tensor.shape != shape)
    fail_corrupt("{}: tensor '{}': expected {} [{}], got {} [{}]", file.path(), name, dtype, fmt::join(shape, ", "),
                 tensor.dtype_name(), fmt::join(tensor.shape, ", "));
  return tensor;
}

std::uint8_t byte_at(const TensorSpan& tensor, std::size_t at) { return static_cast<std::uint8_t>(tensor.bytes[at]); }

void note(FormatCheck& check, std::string text) {
  if (check.first.empty()) check.first = std::move(text);
}

FormatCheck compare(const SafetensorsFile& file, const Case& c, runtime::Device& device, const ops::Backend& backend) {
  const TensorSpan& x = file.require(c.set + ".x");
  if (x.dtype_name() != "F32" || x.shape.size() != 2 || x.shape[0] < 1 || x.shape[1] < 1)
    fail_corrupt("{}: tensor '{}': expected F32 [rows, cols], got {} [{}]", file.path(), x.name, x.dtype_name(),
                 fmt::join(x.shape, ", "));
  const std::int64_t rows = x.shape[0];
  const std::int64_t cols = x.shape[1];
  const bool nvfp4 = c.format.grid == ScaleGrid::kNv16;
  const std::int64_t per_row = formats::scales_per_row(c.format, cols);
  const TensorSpan& codes = require(file, c.name + ".q", "U8", {rows, cols});
  const TensorSpan& scales = require(file, c.name + (nvfp4 ? ".scale_e4m3" : ".scale_ue8m0"), "U8", {rows, per_row});

  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  std::memcpy(values.data(), x.bytes.data(), x.bytes.size());
  const precision::HostQuantized got = precision::host_quantize(device, backend, values, rows, cols, c.format);
  FormatCheck check{.name = c.name, .num_codes = rows * cols, .num_scales = rows * per_row + (nvfp4 ? 1 : 0)};
  if (nvfp4) {
    float want = 0.0f;
    std::memcpy(&want, require(file, c.name + ".global", "F32", {1}).bytes.data(), sizeof(want));
    if (std::bit_cast<std::uint32_t>(want) != std::bit_cast<std::uint32_t>(got.tensor_scale)) {
      ++check.wrong_scales;
      note(check, fmt::format("tensor scale: expected {}, got {}", want, got.tensor_scale));
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t block = 0; block < per_row; ++block) {
      const auto at = static_cast<std::size_t>(row * per_row + block);
      if (got.scales[at] == byte_at(scales, at)) continue;
      ++check.wrong_scales;
      note(check,
           fmt::format("scale [{}, {}]: expected {:#04x}, got {:#04x}", row, block, byte_at(scales, at), got.scales[at]));
    }
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::uint8_t want = byte_at(codes, static_cast<std::size_t>(row * cols + col));
      const std::uint8_t code = got.code(c.format, row, col);
      if (code == want) continue;
      ++check.wrong_codes;
      note(check, fmt::format("code [{}, {}] of {}: expected {:#04x}, got {:#04x}", row, col,
                              values[static_cast<std::size_t>(row * cols + col)], want, code));
    }
  }
  return check;
}

}  // namespace

std::vector<FormatCheck> verify_formats(const std::string& path, runtime::Device& device, const ops::Backend& backend) {
  const SafetensorsFile file(path);
  std::vector<FormatCheck> checks;
  for (const Case& c : cases_of(file)) checks.push_back(compare(file, c, device, backend));
  return checks;
}

}  // namespace ida::eval

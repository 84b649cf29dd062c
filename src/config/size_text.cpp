#include "config/size_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "config/setting.h"

namespace ida::config {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 11> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", 0x1p10},
                                          {"MiB", 0x1p20},
                                          {"GiB", 0x1p30},
                                          {"TiB", 0x1p40},
                                          {"kB", 1e3},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12}}};

}  // namespace

std::optional<std::int64_t> try_parse_size_bytes(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  std::string_view unit = digits == std::string_view::npos ? std::string_view() : text.substr(digits);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value, std::chars_format::fixed);
  if (number.empty() || number.starts_with('.') || error != std::errc() || end != number.data() + number.size()) return {};
  for (const Unit& known : kUnits) {
    if (known.name != unit) continue;
    const double bytes = std::floor(value * known.bytes);
    if (!(bytes >= 1 && bytes <= 0x1p62)) return {};
    return static_cast<std::int64_t>(bytes);
  }
  return {};
}

std::int64_t parse_size_bytes(std::string_view text) {
  if (const auto bytes = try_parse_size_bytes(text)) return *bytes;
  fail_usage(
      "\"{}\" is no size: expected a number and B, KiB, MiB, GiB or TiB (1024) or kB, MB, GB, TB (1000), such as "
      "16GiB",
      printable(text));
}

}  // namespace ida::config

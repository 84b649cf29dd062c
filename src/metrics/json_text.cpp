#include "metrics/json_text.h"

#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace ida::metrics {

void append_json_number(std::string& out, double value) {
  assert(std::isfinite(value));
  char text[32];
  std::to_chars_result end{};
  if (value == std::trunc(value) && std::abs(value) < 0x1p53 && !(value == 0 && std::signbit(value))) {
    end = std::to_chars(text, text + sizeof text, static_cast<std::int64_t>(value));
  } else {
    end = std::to_chars(text, text + sizeof text, value);
  }
  out.append(text, end.ptr);
  // "-0" would read back as the integer 0.
  if (value == 0 && std::signbit(value)) out += ".0";
}

void append_json_string(std::string& out, std::string_view text) {
  out += nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ida::metrics

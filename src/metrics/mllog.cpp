#include "metrics/mllog.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <type_traits>

#include "metrics/json_text.h"

namespace ida::metrics {
namespace {

std::string_view event_name(MllogEvent event) {
  switch (event) {
    case MllogEvent::kStart: return "INTERVAL_START";
    case MllogEvent::kEnd: return "INTERVAL_END";
    case MllogEvent::kPoint: break;
  }
  return "POINT_IN_TIME";
}

void append_value(std::string& out, const MllogValue& value) {
  std::visit(
      [&out](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::monostate>) {
          out += "null";
        } else if constexpr (std::is_same_v<Held, bool>) {
          out += held ? "true" : "false";
        } else if constexpr (std::is_same_v<Held, std::int64_t>) {
          out += fmt::format("{}", held);
        } else if constexpr (std::is_same_v<Held, double>) {
          if (std::isfinite(held)) {
            append_json_number(out, held);
          } else {
            out += std::isnan(held) ? "\"nan\"" : held > 0 ? "\"inf\"" : "\"-inf\"";
          }
        } else {
          append_json_string(out, held);
        }
      },
      value);
}

std::int64_t unix_time_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

void MllogWriter::write(MllogEvent event, std::string_view key, const MllogValue& value, const MllogMetadata& metadata,
                        const std::source_location& where) {
  std::string line = fmt::format(
      ":::MLLOG {{\"namespace\":\"\",\"time_ms\":{},\"event_type\":\"{}\",\"key\":", unix_time_ms(), event_name(event));
  append_json_string(line, key);
  line += ",\"value\":";
  append_value(line, value);
  std::string_view file = where.file_name();
  file.remove_prefix(file.rfind('/') + 1);
  line += ",\"metadata\":{\"file\":";
  append_json_string(line, file);
  line += fmt::format(",\"lineno\":{}", where.line());
  for (const auto& [name, held] : metadata) {
    line += ',';
    append_json_string(line, name);
    line += ':';
    append_value(line, held);
  }
  line += "}}\n";
  file_.append(line);
}

}  // namespace ida::metrics

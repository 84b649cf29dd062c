// mllog.txt: MLPerf's log lines, `:::MLLOG ` and a JSON object {namespace, time_ms, event_type, key, value, metadata}.
// Keys and their meaning are MLPerf's (mlperf_logging, training rules); this file only frames them.
#pragma once
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "metrics/append_file.h"

namespace ida::metrics {

enum class MllogEvent : std::uint8_t { kPoint, kStart, kEnd };  // POINT_IN_TIME, INTERVAL_START, INTERVAL_END

// null, flag, integer, real, text. A real that is NaN or infinite is written as the text "nan", "inf" or "-inf".
using MllogValue = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
using MllogMetadata = std::vector<std::pair<std::string, MllogValue>>;

class MllogWriter {
 public:
  // Appends: each start of a run adds its lines to the same file.
  explicit MllogWriter(const std::string& path) : file_(path, AppendFile::Mode::kAppend, 0) {}

  // `metadata` follows the caller's file and line, which the format asks for.
  void write(MllogEvent event, std::string_view key, const MllogValue& value, const MllogMetadata& metadata = {},
             const std::source_location& where = std::source_location::current());
  void flush() { file_.sync(); }

 private:
  AppendFile file_;
};

}  // namespace ida::metrics

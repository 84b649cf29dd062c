// The machine a record was made on, as far as the operating system tells it.
#pragma once
#include <string>

namespace ida::evidence {

struct Environment {
  std::string os;      // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;  // "Linux 6.1.0 x86_64"
  std::string hostname;
  bool operator==(const Environment&) const = default;
};

Environment collect_environment();

// The present time in UTC, "2026-01-31T23:59:59Z".
std::string utc_now();

}  // namespace ida::evidence

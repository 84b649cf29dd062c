#include "evidence/environment.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <string_view>

namespace ida::evidence {

Environment collect_environment() {
  Environment environment;
  utsname name{};
  if (::uname(&name) == 0) {
    environment.kernel = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
    environment.hostname = name.nodename;
  }
  constexpr std::string_view kKey = "PRETTY_NAME=";
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);) {
    if (line.rfind(kKey, 0) != 0) continue;
    std::string value = line.substr(kKey.size());
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    environment.os = value;
  }
  return environment;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace ida::evidence

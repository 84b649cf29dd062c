// Which sources this program was built from. The definition is generated at build time (build_id.cmake).
#pragma once
#include <string>

namespace ida::evidence {

struct BuildId {
  std::string commit;    // full git hash, "-dirty" after it where tracked files differed; "unknown" outside git
  std::string version;   // "0.1.0"
  std::string compiler;  // "GNU 12.2.0"
  std::string type;      // "Release"
  bool operator==(const BuildId&) const = default;
};

const BuildId& build_id();

}  // namespace ida::evidence

// Runs the built program as a user does: arguments in, exit code, both streams and files out.
#pragma once
#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ida::app_test {

struct Outcome {
  int code = -1;  // 128 + signal where a signal ended it
  std::string out;
  std::string err;
};

// A folder that lives as long as a test; commands run in it, so that relative paths are inside.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const;  // makes folders; its full path

  Outcome run(const std::vector<std::string>& arguments, const std::string& input = "") const;
  // Several may run at once.
  pid_t start(const std::vector<std::string>& arguments, const std::string& input = "") const;
  Outcome wait(pid_t process) const;
  // Waits until a file exists; false when the process ended without it.
  bool wait_for(const std::string& name, pid_t process) const;

 private:
  std::string stream(pid_t process, const char* name) const;
  std::string path_;
};

std::string read_all(const std::string& path);
bool exists(const std::string& path);
nlohmann::json read_json(const std::string& path);
// The figures of `doctor` on this machine.
nlohmann::json read_doctor(const Workspace& space);
std::vector<nlohmann::json> read_json_lines(const std::string& path);
// Every file below a folder: relative path -> content.
std::vector<std::pair<std::string, std::string>> tree_of(const std::string& folder);

// Whether the program under test contains the CUDA backend.
#ifdef IDA_HAS_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

std::string golden_dir(const std::string& name);
// The folder with texts and models that are not part of the repository, if it is there.
std::optional<std::string> shared_data();

// Exit code `code`, nothing on stdout, and as last line of stderr one error line that holds every part.
void expect_refused(const Outcome& outcome, int code, const std::vector<std::string>& parts);

}  // namespace ida::app_test

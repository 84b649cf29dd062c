#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace ida::app_test {
namespace fs = std::filesystem;

Workspace::Workspace() : path_((fs::temp_directory_path() / "ida-apps-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
}
Workspace::~Workspace() { fs::remove_all(path_); }

std::string Workspace::write(const std::string& name, const std::string& content) const {
  const fs::path path(path_ + "/" + name);
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

std::string Workspace::stream(pid_t process, const char* name) const {
  return path_ + "/." + std::to_string(process) + "." + name;
}

pid_t Workspace::start(const std::vector<std::string>& arguments, const std::string& input) const {
  write(".input", input);
  std::vector<std::string> words = {IDA_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("fork failed");
  if (process > 0) {
    // Nothing else reads the input's name once the child has it open: it says so by its error stream.
    while (!exists(stream(process, "err"))) usleep(200);
    return process;
  }
  const auto redirect = [](const std::string& path, int flags, int to) {
    return dup2(open(path.c_str(), flags, 0600), to) >= 0;
  };
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
  if (chdir(path_.c_str()) == 0 && redirect(path_ + "/.input", O_RDONLY, 0) && redirect(stream(getpid(), "out"), kNew, 1) &&
      redirect(stream(getpid(), "err"), kNew, 2))
    execv(IDA_PROGRAM, argv.data());
  _exit(127);
}

Outcome Workspace::wait(pid_t process) const {
  int status = 0;
  if (waitpid(process, &status, 0) != process) throw std::runtime_error("waitpid failed");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {.code = code, .out = read_all(stream(process, "out")), .err = read_all(stream(process, "err"))};
}

bool Workspace::wait_for(const std::string& name, pid_t process) const {
  while (!exists(path_ + "/" + name)) {
    siginfo_t ended = {};
    if (waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == process)
      return exists(path_ + "/" + name);
    usleep(200);
  }
  return true;
}

Outcome Workspace::run(const std::vector<std::string>& arguments, const std::string& input) const {
  return wait(start(arguments, input));
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool exists(const std::string& path) { return fs::exists(path); }

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_all(path)); }

nlohmann::json read_doctor(const Workspace& space) {
  EXPECT_EQ(space.run({"doctor", "--out", "doctor.json"}).code, 0);
  return read_json(space / "doctor.json");
}

std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

std::vector<std::pair<std::string, std::string>> tree_of(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files.emplace_back(fs::relative(entry.path(), folder).string(), read_all(entry.path().string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string golden_dir(const std::string& name) { return std::string(IDA_TESTS_DIR) + "/golden/" + name; }

std::optional<std::string> shared_data() {
  const char* given = getenv("IDA_TRAIN_SHARED");
  const fs::path root = given != nullptr ? fs::path(given) : fs::path(IDA_TESTS_DIR) / "../../shared";
  if (!fs::is_directory(root / "data")) return std::nullopt;
  return fs::canonical(root / "data").string();
}

void expect_refused(const Outcome& outcome, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  ASSERT_FALSE(outcome.err.empty());
  EXPECT_EQ(outcome.err.back(), '\n');
  const std::size_t begin = outcome.err.rfind('\n', outcome.err.size() - 2);
  const std::string line = outcome.err.substr(begin == std::string::npos ? 0 : begin + 1);
  EXPECT_EQ(line.find("ida-train: error: "), 0u) << outcome.err;
  for (const std::string& part : parts)
    EXPECT_NE(line.find(part), std::string::npos) << "'" << part << "' is not in: " << line;
}

}  // namespace ida::app_test

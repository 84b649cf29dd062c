#include "data/git_history.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ida::data {
namespace {

std::string text_of_file(int fd) {
  std::string text(4096, '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text.substr(0, text.find('\n'));
}

int memory_file(std::string_view content) {
  const int fd = ::memfd_create("ida-train", MFD_CLOEXEC);
  if (fd < 0) fail_runtime("git: memfd_create failed: {}", std::strerror(errno));
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t size = ::write(fd, content.data() + at, content.size() - at);
    if (size < 0 && errno != EINTR)
      fail_runtime("git: the list of commits cannot be handed over: {}", std::strerror(errno));
    at += size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  ::lseek(fd, 0, SEEK_SET);
  return fd;
}

}  // namespace

// `git` with arguments and an input, its output read piece by piece.
class ChildProcess {
 public:
  ChildProcess(const std::vector<std::string>& arguments, std::string_view input)
      : input_(memory_file(input)), errors_(memory_file({})) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_runtime("git: pipe failed: {}", std::strerror(errno));
    output_ = ends[0];
    const int failed = spawn(arguments, ends[1]);
    ::close(ends[1]);
    if (failed == 0) return;
    pid_ = -1;
    close_all();
    if (failed == ENOENT) fail_usage("git: no such program on PATH; install git or leave --git out");
    fail_runtime("git: cannot be started: {}", std::strerror(failed));
  }
  ~ChildProcess() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    close_all();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Appends what comes next; false at the end.
  bool read_more(std::string& out) {
    char piece[1 << 16];
    ssize_t size = 0;
    do size = ::read(output_, piece, sizeof(piece));
    while (size < 0 && errno == EINTR);
    if (size < 0) fail_runtime("git: its output cannot be read: {}", std::strerror(errno));
    out.append(piece, static_cast<std::size_t>(size));
    return size > 0;
  }
  // Waits for the end; empty when all went well, else git's first line of complaint.
  std::string finish() {
    int status = 0;
    while (::waitpid(std::exchange(pid_, -1), &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    const std::string complaint = text_of_file(errors_);
    return complaint.empty() ? "git failed without a message" : complaint;
  }

 private:
  int spawn(const std::vector<std::string>& arguments, int output) {
    std::vector<std::string> words = {"git"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<char*> env;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (std::strncmp(*entry, "GIT_", 4) != 0 && std::strncmp(*entry, "LC_ALL=", 7) != 0) env.push_back(*entry);
    }
    std::string extra[] = {"LC_ALL=C", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0"};
    for (std::string& entry : extra) env.push_back(entry.data());
    env.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input_, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output, 1);
    ::posix_spawn_file_actions_adddup2(&actions, errors_, 2);
    const int failed = ::posix_spawnp(&pid_, "git", &actions, nullptr, argv.data(), env.data());
    ::posix_spawn_file_actions_destroy(&actions);
    return failed;
  }
  void close_all() {
    for (int* fd : {&input_, &errors_, &output_}) {
      if (*fd >= 0) ::close(std::exchange(*fd, -1));
    }
  }

  pid_t pid_ = -1;
  int input_ = -1;
  int errors_ = -1;
  int output_ = -1;
};

namespace {

std::string header_of(const std::string& commit) { return std::string(1, '\0') + commit + std::string(1, '\0'); }

// "message NUL patch" -> the document. A patch's lines start with a blank, a sign or '@' except for its headers, so
// "index " starts the header line with blob ids, which say nothing and depend on the repository's size.
std::string document_of(std::string_view output) {
  const std::size_t border = output.find('\0');
  std::string_view message = output.substr(0, border);
  while (message.ends_with('\n')) message.remove_suffix(1);
  std::string document(message);
  document += '\n';
  std::string_view patch = border == std::string_view::npos ? std::string_view() : output.substr(border + 1);
  while (patch.starts_with('\n')) patch.remove_prefix(1);
  if (!patch.empty()) document += '\n';
  while (!patch.empty()) {
    const std::string_view line = patch.substr(0, std::min(patch.find('\n'), patch.size() - 1) + 1);
    if (!line.starts_with("index ")) document += line;
    patch.remove_prefix(line.size());
  }
  return document;
}

}  // namespace

std::string git_version() {
  ChildProcess git({"--version"}, {});
  std::string text;
  while (git.read_more(text)) continue;
  if (const std::string problem = git.finish(); !problem.empty()) fail_runtime("git --version: {}", problem);
  return text.substr(0, text.find('\n'));
}

std::vector<std::string> list_commits(const std::string& repository) {
  ChildProcess git({"-C", repository, "rev-list", "--reverse", "--topo-order", "--no-merges", "HEAD", "--"}, {});
  std::string text;
  while (git.read_more(text)) continue;
  if (const std::string problem = git.finish(); !problem.empty())
    fail_usage("[data] {}: expected a git repository with commits: {}", repository, problem);
  std::vector<std::string> commits;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    commits.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return commits;
}

CommitReader::CommitReader(const std::string& repository, std::span<const std::string> commits)
    : repository_(repository), commits_(commits) {
  std::string ids;
  for (const std::string& commit : commits) ids += commit + "\n";
  git_ = std::make_unique<ChildProcess>(std::vector<std::string>{"-C",
                                                                 repository,
                                                                 "-c",
                                                                 "core.quotePath=false",
                                                                 "-c",
                                                                 "core.attributesFile=/dev/null",
                                                                 "diff-tree",
                                                                 "--stdin",
                                                                 "--root",
                                                                 "--always",
                                                                 "-r",
                                                                 "-p",
                                                                 "--unified=3",
                                                                 "--diff-algorithm=myers",
                                                                 "--src-prefix=a/",
                                                                 "--dst-prefix=b/",
                                                                 "--no-color",
                                                                 "--no-ext-diff",
                                                                 "--no-textconv",
                                                                 "--no-renames",
                                                                 "--encoding=UTF-8",
                                                                 "--format=%x00%H%x00%B%x00"},
                                        ids);
}

CommitReader::~CommitReader() = default;

std::string CommitReader::next() {
  const std::string header = header_of(commits_.front());
  commits_ = commits_.subspan(1);
  const bool last = commits_.empty();
  const std::string following = last ? std::string() : header_of(commits_.front());
  std::size_t end = std::string::npos;
  std::size_t searched = 0;
  bool more = true;
  while (more) {
    if (!last) end = buffer_.find(following, searched);
    if (end != std::string::npos) break;
    searched = buffer_.size() - std::min(buffer_.size(), following.size());
    more = git_->read_more(buffer_);
  }
  if (!more) {
    const std::string problem = git_->finish();
    if (!problem.empty() || !last)
      fail_runtime("{}: git ends before its last commit: {}", repository_, problem.empty() ? "no reason given" : problem);
  }
  if (!buffer_.starts_with(header)) fail_runtime("{}: git writes something else than was asked for", repository_);
  std::string document = document_of(std::string_view(buffer_).substr(header.size(), end - header.size()));
  buffer_.erase(0, end);
  return document;
}

}  // namespace ida::data

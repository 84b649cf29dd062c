// The history of a git repository as documents, oldest commit first: a commit is its message, an empty line, and its
// patch against its parent. Authors, dates and ids stay out; merges are left out, since their changes came in elsewhere.
//
// The `git` program does the work as a child process, without a shell. Nothing that the repository configures is run
// (no external diff, no text conversion), and GIT_* variables are not passed on.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ida::data {

// Ids of the commits that HEAD leads to, merges left out, in topological order. Errors (kUsage): `git` is not installed,
// or `repository` has no commits or is no repository, in git's words.
std::vector<std::string> list_commits(const std::string& repository);

// What `git --version` prints: patches may differ between versions.
std::string git_version();

class ChildProcess;

// Reads the documents of `commits`, which must outlive it, one by one from a single process.
class CommitReader {
 public:
  CommitReader(const std::string& repository, std::span<const std::string> commits);
  ~CommitReader();
  // The document of the next commit; to be called once per commit. Errors (kRuntime): git ends early, in git's words.
  std::string next();

 private:
  std::string repository_;
  std::span<const std::string> commits_;
  std::unique_ptr<ChildProcess> git_;
  std::string buffer_;  // what git wrote from the next commit's header on
};

}  // namespace ida::data

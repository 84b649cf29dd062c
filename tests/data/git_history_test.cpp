#include "data/git_history.h"

#include <cstdlib>

#include "data/build_shard.h"
#include "data/document.h"
#include "data/source_manifest.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

class GitHistory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "skipped: git is not installed";
    std::filesystem::create_directory(folder_ / "re po");
    git("init -q -b main");
    folder_.write("re po/a.txt", "one\ntwo\n");
    commit("first\n\nbecause index");
    folder_.write("re po/a.txt", "one\n2\n");
    commit("second");
  }
  void git(const std::string& arguments) const {
    const std::string line = "git -C '" + (folder_ / "re po") +
                             "' -c user.name=n -c user.email=e -c commit.gpgsign=false " + arguments + " >/dev/null";
    ASSERT_EQ(std::system(line.c_str()), 0) << line;
  }
  void commit(const std::string& message) const {
    git("add -A");
    git("commit -q --allow-empty -m '" + message + "'");
  }
  std::vector<std::string> documents() const {
    std::vector<std::string> texts;
    for_each_document(find_requested_sources({{.path = folder_ / "re po", .git = true}}),
                      [&](std::string_view text, std::int32_t) { texts.emplace_back(text); });
    return texts;
  }
  TempFolder folder_;
};

TEST_F(GitHistory, ACommitIsItsMessageAndItsPatch) {
  const std::vector<std::string> expected = {
      "first\n\nbecause index\n\ndiff --git a/a.txt b/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/a.txt\n"
      "@@ -0,0 +1,2 @@\n+one\n+two\n",
      "second\n\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"};
  EXPECT_EQ(documents(), expected);
}

TEST_F(GitHistory, MergesAndEmptyCommitsAndConfigurationChangeNothing) {
  git("checkout -q -b side");
  folder_.write("re po/b.txt", "b\n");
  commit("on a side");
  git("checkout -q main");
  commit("empty");
  git("merge -q --no-ff -m merged side");
  const std::vector<std::string> before = documents();
  ASSERT_EQ(before.size(), 4U);
  EXPECT_EQ(std::count_if(before.begin(), before.end(), [](const std::string& text) { return text == "empty\n"; }), 1);
  for (const char* setting : {"diff.noprefix true", "diff.context 0", "color.ui always", "diff.algorithm patience",
                              "diff.external /bin/false", "core.pager /bin/false", "log.showSignature true"})
    git(std::string("config ") + setting);
  git("config diff.evil.command /bin/false");
  git("config diff.evil.textconv /bin/false");
  folder_.write("re po/.git/info/attributes", "*.txt diff=evil\n");
  ::setenv("GIT_DIR", "/nowhere", 1);
  ::setenv("GIT_EXTERNAL_DIFF", "/bin/false", 1);
  EXPECT_EQ(documents(), before);
  ::unsetenv("GIT_DIR");
  ::unsetenv("GIT_EXTERNAL_DIFF");
}

TEST_F(GitHistory, ReadingGoesOnFromAnyCommit) {
  for (int i = 0; i < 5; ++i) commit("more " + std::to_string(i));
  const std::vector<Source> sources = find_requested_sources({{.path = folder_ / "re po", .git = true}});
  const auto rest = [&](const ReaderPosition& start) {
    DocumentReader reader(sources, start);
    std::vector<std::string> texts;
    for (RawDocument document; reader.next(document);) texts.push_back(*document.commit_text);
    return texts;
  };
  std::vector<std::string> expected = rest({});
  ASSERT_EQ(expected.size(), 7U);
  DocumentReader reader(sources);
  for (RawDocument document; reader.next(document);) {
    expected.erase(expected.begin());
    EXPECT_EQ(rest(document.next), expected);
    EXPECT_NE(document.where().find("commit"), std::string::npos);
  }
}

TEST_F(GitHistory, AManifestKnowsANewCommit) {
  const std::vector<Source> sources = find_requested_sources({{.path = folder_ / "re po", .git = true}});
  write_source_manifest(folder_ / "m.json", sources, {}, "key");
  EXPECT_TRUE(check_source_manifest(folder_ / "m.json").problems.empty());
  commit("third");
  const ManifestCheck check = check_source_manifest(folder_ / "m.json");
  ASSERT_EQ(check.problems.size(), 1U);
  EXPECT_NE(check.problems[0].find("3 commits"), std::string::npos) << check.problems[0];
}

TEST_F(GitHistory, WhatIsNoHistoryIsRefused) {
  std::filesystem::create_directory(folder_ / "plain");
  ::setenv("GIT_CEILING_DIRECTORIES", (folder_ / "").c_str(), 1);
  const auto list = [&](const std::string& path) { return [path] { list_commits(path); }; };
  expect_error(ExitCode::kUsage, {folder_ / "plain", "git repository", "fatal"}, list(folder_ / "plain"));
  expect_error(ExitCode::kUsage, {"--help"}, list("--help"));
  std::filesystem::create_directory(folder_ / "none");
  ASSERT_EQ(std::system(("git init -q '" + (folder_ / "none") + "'").c_str()), 0);
  expect_error(ExitCode::kUsage, {folder_ / "none", "commits"}, list(folder_ / "none"));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  expect_error(ExitCode::kUsage, {"git", "PATH"}, list(folder_ / "re po"));
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace ida::data

// The generating script run on throw-away repositories.
#include "evidence/build_id.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <regex>

#include "base/file.h"
#include "evidence/environment.h"

namespace ida::evidence {
namespace {

namespace fs = std::filesystem;

class BuildIdScript : public testing::Test {
 protected:
  BuildIdScript() {
    std::string pattern = (fs::temp_directory_path() / "ida-build-id-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    make_directories(root_ + "/tree/inner");
  }
  ~BuildIdScript() override { remove_tree(root_); }

  int shell(const std::string& command) {
    return std::system(("cd " + root_ + " && " + command + " >/dev/null 2>&1").c_str());
  }

  void commit_tree() {
    write_file_atomic(root_ + "/tree/file", std::string_view("one"));
    ASSERT_EQ(shell("git init -q tree && cd tree && git add file && "
                    "git -c user.name=t -c user.email=t@t commit -qm x"),
              0);
  }

  // The commit the script writes for `folder`.
  std::string commit_of(const std::string& folder) {
    EXPECT_EQ(shell("cmake -DSOURCE_DIR=" + root_ + "/" + folder +
                    " -DVERSION=1 -DCOMPILER=c -DBUILD_TYPE=t -DOUTPUT=" + output() + " -P " IDA_BUILD_ID_SCRIPT),
              0);
    const std::string text = read_file(output());
    std::smatch match;
    const std::regex fields(R"re(\{"([^"]*)", "1", "c", "t"\})re");
    return std::regex_search(text, match, fields) ? match[1].str() : text;
  }
  std::string output() const { return root_ + "/id.cpp"; }

  std::string root_;
};

TEST_F(BuildIdScript, NamesTheCommitAndWhetherFilesDiffer) {
  if (shell("git --version") != 0) GTEST_SKIP() << "skipped: no git on this machine";
  EXPECT_EQ(commit_of("tree"), "unknown");
  commit_tree();
  const std::string commit = commit_of("tree");
  EXPECT_TRUE(std::regex_match(commit, std::regex("[0-9a-f]{40}"))) << commit;
  write_file_atomic(root_ + "/tree/untracked", std::string_view("new"));
  EXPECT_EQ(commit_of("tree"), commit);
  write_file_atomic(root_ + "/tree/file", std::string_view("two"));
  EXPECT_EQ(commit_of("tree"), commit + "-dirty");
  // Sources unpacked inside somebody else's repository are not that repository's commit.
  EXPECT_EQ(commit_of("tree/inner"), "unknown");
}

TEST_F(BuildIdScript, LeavesAnUnchangedFileAlone) {
  commit_of("tree");
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(5);
  fs::last_write_time(output(), past);
  commit_of("tree");
  EXPECT_EQ(fs::last_write_time(output()), past);
}

TEST(BuildId, IsFilledIn) {
  EXPECT_TRUE(std::regex_match(build_id().commit, std::regex("unknown|[0-9a-f]{40,64}(-dirty)?"))) << build_id().commit;
  EXPECT_FALSE(build_id().version.empty());
  EXPECT_FALSE(build_id().compiler.empty());
}

TEST(Environment, TellsTheSystem) {
  EXPECT_EQ(collect_environment().kernel.rfind("Linux ", 0), 0u);
  EXPECT_TRUE(std::regex_match(utc_now(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"))) << utc_now();
}

}  // namespace
}  // namespace ida::evidence

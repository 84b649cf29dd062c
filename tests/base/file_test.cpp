#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace ida {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = (fs::temp_directory_path() / "ida-test-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~FileTest() override { fs::remove_all(dir_); }
  std::string at(const std::string& name) const { return dir_ + "/" + name; }

  std::string dir_;
};

template <typename Action>
std::string refusal(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(FileTest, WritesAndReadsBack) {
  const std::string bytes("a\0b\n\xFF", 5);
  write_file_atomic(at("x"), bytes);
  EXPECT_EQ(read_file(at("x")), bytes);
  const MappedFile mapped(at("x"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()), bytes);
  write_file_atomic(at("x"), "");
  EXPECT_EQ(read_file(at("x")), "");
  EXPECT_TRUE(MappedFile(at("x")).bytes().empty());
  EXPECT_EQ(mapped.bytes().size(), 5U);  // an old map is not cut short by a rewrite
  EXPECT_EQ(list_directory(dir_), std::vector<std::string>{"x"});
}

TEST_F(FileTest, AnUnfinishedWriteKeepsTheOldContent) {
  write_file_atomic(at("x"), "old");
  {
    DurableFileWriter writer(at("x"));
    writer.write("new");
  }
  EXPECT_EQ(read_file(at("x")), "old");
  EXPECT_EQ(list_directory(dir_), std::vector<std::string>{"x"});
}

TEST_F(FileTest, WriterReportsSizeAndHash) {
  DurableFileWriter writer(at("x"));
  writer.write("ab");
  writer.write("c");
  writer.finish();
  EXPECT_EQ(writer.size_bytes(), 3U);
  EXPECT_EQ(writer.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(FileTest, ErrorsNamePathAndReason) {
  EXPECT_NE(refusal([&] { read_file(at("none")); }).find("No such file"), std::string::npos);
  EXPECT_NE(refusal([&] { read_file(at("none")); }).find(at("none")), std::string::npos);
  EXPECT_NE(refusal([&] { write_file_atomic(at("no/folder"), "x"); }).find("No such file"), std::string::npos);
  EXPECT_NE(refusal([&] { rename_path(at("none"), at("x")); }).find(at("none")), std::string::npos);
  EXPECT_NE(refusal([&] { list_directory(at("none")); }).find(at("none")), std::string::npos);
  write_file_atomic(at("x"), "12345");
  EXPECT_NE(refusal([&] { read_file(at("x"), 4); }).find("at most 4"), std::string::npos);
}

TEST_F(FileTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_NE(refusal([&] { read_file(at("fifo")); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(refusal([&] { MappedFile map(dir_); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(refusal([&] { read_file("/dev/zero"); }).find("not a regular file"), std::string::npos);
}

TEST_F(FileTest, RemovingATreeDoesNotFollowLinks) {
  make_directories(at("keep"));
  write_file_atomic(at("keep/x"), "x");
  make_directories(at("a/b/c"));
  fs::create_directory_symlink(at("keep"), at("a/b/link"));
  remove_tree(at("a"));
  EXPECT_EQ(list_directory(dir_), std::vector<std::string>{"keep"});
  EXPECT_EQ(read_file(at("keep/x")), "x");
  EXPECT_NO_THROW(remove_tree(at("a")));
  EXPECT_NO_THROW(remove_file(at("a")));
}

TEST_F(FileTest, LinksAreReplacedAtomically) {
  replace_symlink("one", at("latest"));
  replace_symlink("two", at("latest"));
  EXPECT_EQ(fs::read_symlink(at("latest")), "two");
  EXPECT_EQ(list_directory(dir_), std::vector<std::string>{"latest"});
}

TEST_F(FileTest, PathsOfParents) {
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(parent_path("/a"), "/");
}

// Short writes, interrupted calls and a taken temporary name are ordinary.
TEST_F(FileTest, ShortAndInterruptedCallsAreRepeated) {
  static int calls;
  calls = 0;
  FileOps ops = system_file_ops();
  ops.write = [](int fd, const void* data, std::size_t size) -> ssize_t {
    if (++calls % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    return system_file_ops().write(fd, data, size > 3 ? 3 : size);
  };
  ops.read = [](int fd, void* data, std::size_t size) { return system_file_ops().read(fd, data, size > 2 ? 2 : size); };
  ops.open = [](const char* path, int flags, mode_t mode) {
    static bool first = true;
    if ((flags & O_EXCL) != 0 && std::exchange(first, false)) {
      errno = EEXIST;
      return -1;
    }
    return system_file_ops().open(path, flags, mode);
  };
  const FileOps old = replace_file_ops(ops);
  write_file_atomic(at("x"), "0123456789");
  const std::string text = read_file(at("x"));
  replace_file_ops(old);
  EXPECT_EQ(text, "0123456789");
  EXPECT_GE(calls, 8);
}

}  // namespace
}  // namespace ida

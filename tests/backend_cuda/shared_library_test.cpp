// Where libraries are looked for: the order, and that only what is there is tried.
#include "backend/cuda/shared_library.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "scoped_environment.h"

namespace ida::cuda {
namespace {

namespace fs = std::filesystem;

class SharedLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "shared_library_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path touch(const fs::path& file, bool executable = false) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << "not a library";
    if (executable) chmod((root_ / file).c_str(), 0755);
    return root_ / file;
  }
  fs::path root_;
};

const LibrarySearch kSearch = {.soname = "libida_test_absent.so.1",
                               .environment = "IDA_TEST_LIBRARY",
                               .wheel_folders = {"nvidia/absent/lib"},
                               .folders = {}};

TEST_F(SharedLibraryTest, AVariableNamesTheOnlyCandidate) {
  const ScopedEnvironment given("IDA_TEST_LIBRARY", "/somewhere/else.so");
  EXPECT_EQ(library_candidates(kSearch), std::vector<std::string>{"/somewhere/else.so"});
}

TEST_F(SharedLibraryTest, PackagesOfThePythonOnThePath) {
  touch("venv/bin/python3", true);
  const fs::path file = touch("venv/lib/python3.12/site-packages/nvidia/absent/lib/libida_test_absent.so.1");
  const ScopedEnvironment path("PATH", (root_ / "empty").string() + "::" + (root_ / "venv/bin").string());
  const std::vector<std::string> candidates = library_candidates(kSearch);
  EXPECT_EQ(candidates, (std::vector<std::string>{file.string(), "libida_test_absent.so.1"}));
}

TEST_F(SharedLibraryTest, PackagesOfTheActiveEnvironment) {
  const fs::path file = touch("active/lib/python3.11/site-packages/nvidia/absent/lib/libida_test_absent.so.1");
  const ScopedEnvironment path("PATH", "/nowhere");
  const ScopedEnvironment active("VIRTUAL_ENV", (root_ / "active").string());
  EXPECT_EQ(library_candidates(kSearch), (std::vector<std::string>{file.string(), "libida_test_absent.so.1"}));
}

TEST_F(SharedLibraryTest, ReasonsOfEveryCandidate) {
  const fs::path file = touch("active/lib/python3.11/site-packages/nvidia/absent/lib/libida_test_absent.so.1");
  const ScopedEnvironment active("VIRTUAL_ENV", (root_ / "active").string());
  const SharedLibrary library = open_library(kSearch);
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_TRUE(library.reason.starts_with(file.string())) << library.reason;
  EXPECT_NE(library.reason.find("; libida_test_absent.so.1: cannot open"), std::string::npos) << library.reason;
}

TEST_F(SharedLibraryTest, SymbolsOfALibraryThatIsThere) {
  SharedLibrary library =
      open_library({.soname = "libm.so.6", .environment = "IDA_TEST_LIBRARY", .wheel_folders = {}, .folders = {}});
  ASSERT_NE(library.handle, nullptr) << library.reason;
  EXPECT_NE(library.path.find("libm.so.6"), std::string::npos);
  double (*cosine)(double) = nullptr;
  EXPECT_TRUE(SymbolLoader(library).load("cos", cosine).complete());
  EXPECT_EQ(cosine(0.0), 1.0);
  void (*absent)() = nullptr;
  void (*later)() = nullptr;
  EXPECT_FALSE(SymbolLoader(library).load("no_such_function", absent).load("cos", later).complete());
  EXPECT_EQ(later, nullptr);
  EXPECT_NE(library.reason.find("symbol no_such_function is missing"), std::string::npos) << library.reason;
}

TEST(SharedLibrary, AnOlderVersionIsPassedOverWithItsNumber) {
  LibrarySearch search{
      .soname = "libm.so.6", .environment = "IDA_TEST_NO_SUCH_VARIABLE", .wheel_folders = {}, .folders = {}};
  search.version_function = "no_such_function";  // version 0
  search.min_version = 7;
  const SharedLibrary old = open_library(search);
  EXPECT_EQ(old.handle, nullptr);
  EXPECT_NE(old.reason.find("version 0, older than 7"), std::string::npos) << old.reason;
  search.min_version = 0;
  EXPECT_NE(open_library(search).handle, nullptr);
}

}  // namespace
}  // namespace ida::cuda

#include "data/source_manifest.h"

#include "data_test_util.h"

namespace ida::data {
namespace {

TEST(SourceManifest, NamesEveryFileThatIsNotAsItWas) {
  TempFolder folder;
  folder.write("t/a.py", "a");
  folder.write("t/sub/b.py", "b");
  folder.write("t/c.txt", "other ending");
  const std::string single = folder.write("one.txt", "one");
  const std::vector<Source> sources =
      find_requested_sources({{.path = folder / "t", .extensions = {"py"}}, {.path = single}});
  const std::string path = manifest_path(folder / "x.shard");
  EXPECT_EQ(path, folder / "x.manifest.json");
  write_source_manifest(path, sources, hash_files(sources), "the key");
  const auto problems = [&] { return check_source_manifest(path).problems; };
  EXPECT_TRUE(problems().empty());
  EXPECT_EQ(check_source_manifest(path).num_files, 3);
  EXPECT_EQ(check_source_manifest(path).build_key, "the key");

  folder.write("t/c.txt", "changed, but of no concern");
  EXPECT_TRUE(problems().empty());
  folder.write("t/a.py", "A");
  folder.write("t/new.py", "new");
  std::filesystem::remove(folder / "t/sub/b.py");
  const std::vector<std::string> found = problems();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NE(found[0].find("a.py changed: 1 bytes, sha256 559aead08264"), std::string::npos) << found[0];
  EXPECT_NE(found[1].find("sub/b.py is missing"), std::string::npos) << found[1];
  EXPECT_NE(found[2].find("new.py is new"), std::string::npos) << found[2];
  std::filesystem::remove_all(folder / "t");
  EXPECT_EQ(problems().size(), 1U);

  for (const char* text : {"{}", "[]", "{\"format\": \"ida-train sources 1\"}", "{\"format\": \"other\"}", "x"}) {
    folder.write("x.manifest.json", text);
    expect_error(ExitCode::kCorrupt, {path}, problems);
  }
}

}  // namespace
}  // namespace ida::data

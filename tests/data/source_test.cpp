#include "data/source.h"

#include <sys/stat.h>

#include "data/document.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

std::vector<std::string> texts_of(const std::vector<Source>& sources) {
  std::vector<std::string> texts;
  for_each_document(
      sources, [&](std::string_view text, std::int32_t source) { texts.push_back(fmt::format("{}:{}", source, text)); });
  return texts;
}

std::string content_hash(const std::vector<std::string>& entries) {
  const std::vector<Source> sources = find_sources(entries);
  return hash_sources(sources, hash_files(sources));
}

TEST(Source, KindsNamesAndOrder) {
  TempFolder folder;
  folder.write("tree/b.txt", "bee");
  folder.write("tree/a/z.py", "zed");
  folder.write("tree/a.txt", "ay");
  const std::vector<Source> sources =
      find_sources({folder.write("one.txt", "uno"), folder / "tree",
                    folder.write("x/one.jsonl", "{\"text\": \"l1\"}\n\n{\"text\":\"l2\"}"), folder / "tree/"});
  ASSERT_EQ(sources.size(), 4U);
  EXPECT_EQ(sources[0].name, "one");
  EXPECT_EQ(sources[1].name, "tree");
  EXPECT_EQ(sources[2].name, "one-2");
  EXPECT_EQ(sources[3].name, "tree-2");
  EXPECT_EQ(sources[2].kind, SourceKind::kJsonl);
  const std::vector<std::string> expected = {"0:uno", "1:ay", "1:zed", "1:bee", "2:l1", "2:l2", "3:ay", "3:zed", "3:bee"};
  EXPECT_EQ(texts_of(sources), expected);
}

TEST(Source, FolderLeavesOutWhatIsNotText) {
  TempFolder folder;
  folder.write("t/.git/config", "x");
  folder.write("t/.hidden", "x");
  folder.write("t/ok", std::string("\xff\xfe caf\xc3\xa9", 8));
  folder.write("t/binary", std::string("a\0b", 3));
  folder.write("t/empty", "");
  std::filesystem::create_symlink(folder / "t/ok", folder / "t/link");
  ASSERT_EQ(::mkfifo((folder / "t/pipe").c_str(), 0600), 0);
  const std::vector<Source> sources = find_sources({folder / "t"});
  EXPECT_EQ(sources[0].num_left_out, 4);
  EXPECT_EQ(sources[0].files.size(), 3U);
  EXPECT_EQ(texts_of(sources), std::vector<std::string>{"0:\xff\xfe caf\xc3\xa9"});
}

TEST(Source, EntriesThatCannotBeRead) {
  TempFolder folder;
  std::filesystem::create_directory(folder / "bare");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error(ExitCode::kUsage, {"no entry"}, [] { find_sources({}); });
  expect_error(ExitCode::kUsage, {folder / "none", "no such"}, [&] { find_sources({folder / "none"}); });
  expect_error(ExitCode::kUsage, {"is empty"}, [&] { find_sources({folder.write("e.txt", "")}); });
  expect_error(ExitCode::kUsage, {"no file below"}, [&] { find_sources({folder / "bare"}); });
  expect_error(ExitCode::kUsage, {"neither a regular file"}, [&] { find_sources({folder / "pipe"}); });
  const std::vector<Source> shard = find_sources({folder.write("s.shard", "x")});
  EXPECT_EQ(shard[0].kind, SourceKind::kShard);
  expect_error(ExitCode::kUsage, {"holds no text"}, [&] { texts_of(shard); });
}

TEST(Source, HashSeesContentNamesAndOrder) {
  TempFolder folder;
  folder.write("t/a", "one");
  folder.write("t/b", "two");
  const auto hash = [&] { return content_hash({folder / "t"}); };
  const std::string before = hash();
  EXPECT_EQ(hash(), before);
  folder.write("t/b", "twO");
  EXPECT_NE(hash(), before);
  folder.write("t/b", "two");
  EXPECT_EQ(hash(), before);
  std::filesystem::rename(folder / "t/b", folder / "t/c");
  EXPECT_NE(hash(), before);
  folder.write("t/b", "");
  EXPECT_NE(content_hash({folder / "t/a", folder / "t/c"}), content_hash({folder / "t/c", folder / "t/a"}));
}

TEST(Source, ErrorsNameFileAndLine) {
  TempFolder folder;
  const std::string path = folder.write("d.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \n");
  expect_error(ExitCode::kCorrupt, {path + ":3"}, [&] { texts_of(find_sources({path})); });
}

TEST(Source, ExtensionsChooseTheFilesOfAFolder) {
  TempFolder folder;
  folder.write("t/a.py", "ay");
  folder.write("t/sub/b.md", "bee");
  folder.write("t/c.txt", "no");
  folder.write("t/py", "no");
  folder.write("t/.d.py", "no");
  const std::vector<Source> sources = find_requested_sources({{.path = folder / "t", .extensions = {"py", "md"}}});
  EXPECT_EQ(texts_of(sources), (std::vector<std::string>{"0:ay", "0:bee"}));
  EXPECT_EQ(sources[0].num_left_out, 3);
  expect_error(ExitCode::kUsage, {"no file below"},
               [&] { find_requested_sources({{.path = folder / "t", .extensions = {"cpp"}}}); });
  expect_error(ExitCode::kUsage, {"not a folder"},
               [&] { find_requested_sources({{.path = folder / "t/a.py", .extensions = {"py"}}}); });
}

// Every position that a document names leads to the documents after it.
TEST(Source, ReadingGoesOnFromAnyPosition) {
  TempFolder folder;
  folder.write("t/a", "1");
  folder.write("t/b", "2");
  const std::vector<Source> sources = find_sources({folder.write("x.jsonl", "{\"text\": \"3\"}\n\n{\"text\": \"4\"}\n \n"),
                                                    folder / "t", folder.write("y.jsonl", "{\"text\": \"5\"}")});
  const auto rest = [&](const ReaderPosition& start) {
    DocumentReader reader(sources, start);
    std::vector<std::string> places;
    for (RawDocument document; reader.next(document);) places.push_back(document.where());
    return places;
  };
  std::vector<std::string> expected = rest({});
  ASSERT_EQ(expected.size(), 5U);
  DocumentReader reader(sources);
  for (RawDocument document; reader.next(document);) {
    expected.erase(expected.begin());
    EXPECT_EQ(rest(document.next), expected);
  }
}

}  // namespace
}  // namespace ida::data

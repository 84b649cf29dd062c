// Builds in parts: the same bytes however often they are interrupted.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/parallel.h"
#include "data/build_shard.h"
#include "data/shard_index.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

namespace fs = std::filesystem;

struct Interrupted : std::exception {};

class BuildParts : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string lines;
    for (int i = 0; i < 5000; ++i)
      lines += i % 7 == 0 ? "{\"text\": \"\"}\n"
                          : fmt::format("{{\"text\": \"document {} {}\"}}\n", i, std::string(i % 50, 'x'));
    folder_.write("d.jsonl", lines);
  }
  // `stop_after` progress calls; 0: runs to its end.
  BuildReport build(const std::string& name, int stop_after = 0) {
    const std::vector<Source> sources = find_sources({folder_ / "d.jsonl"});
    BuildOptions options{.part_tokens = 20000};
    int calls = 0;
    options.progress = [&](const BuildReport&) {
      if (++calls == stop_after) throw Interrupted();
    };
    const std::string key = build_key_of(sources, hash_files(sources), ByteEncoder(), options);
    return build_shard(sources, ByteEncoder(), folder_ / name, key, options);
  }
  // Every file of a build, by name.
  std::map<std::string, std::string> files(const std::string& name) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / name))
      if (entry.is_regular_file())
        all[fs::relative(entry.path(), folder_ / name).string()] = read_all(entry.path().string());
    return all;
  }
  std::string parts_folder(const std::string& name) {
    for (const auto& entry : fs::directory_iterator(folder_ / name))
      if (entry.is_directory()) return entry.path().string();
    return "";
  }
  TempFolder folder_;
};

TEST_F(BuildParts, EveryDocumentIsThereOnceAndInOrder) {
  const BuildReport report = build("a/d.shard");
  EXPECT_GT(report.num_parts, 5);
  EXPECT_EQ(report.num_reused, 0);
  EXPECT_EQ(report.read_bytes + 5000, report.total_bytes) << "line breaks are not part of a record";
  const TokenDataset dataset = TokenDataset::open({folder_ / "a/d.shard"});
  EXPECT_EQ(dataset.num_shards(), report.num_parts);
  EXPECT_EQ(dataset.num_documents(), report.num_documents);
  EXPECT_EQ(dataset.num_tokens(), report.num_tokens);
  std::int64_t next = 0;
  for (int i = 0; i < 5000; ++i) {
    if (i % 7 == 0) continue;
    const std::string text = fmt::format("document {} {}", i, std::string(i % 50, 'x'));
    const DocumentView document = dataset.document(next++);
    ASSERT_EQ(document.length(), static_cast<std::int64_t>(text.size()) + 2);
    std::string found;
    for (std::int64_t at = 1; at + 1 < document.length(); ++at) found += static_cast<char>(document.token(at));
    ASSERT_EQ(found, text);
  }
  EXPECT_EQ(next, dataset.num_documents());
  for (std::int64_t s = 0; s + 1 < dataset.num_shards(); ++s) EXPECT_GE(dataset.shard(s).num_tokens(), 20000);
}

TEST_F(BuildParts, InterruptedAnywhereItEndsWithTheSameBytes) {
  const BuildReport whole = build("a/d.shard");
  const std::map<std::string, std::string> expected = files("a");
  for (int stop = 1; stop <= 6; ++stop) {
    const std::string name = fmt::format("b{}/d.shard", stop);
    EXPECT_THROW(build(name, stop), Interrupted);
    EXPECT_FALSE(path_exists(folder_ / name));
    const BuildReport rest = build(name);
    EXPECT_TRUE(files(fmt::format("b{}", stop)) == expected) << stop;
    EXPECT_EQ(rest.num_reused > 0, stop > 1) << stop << ": the first call comes before the first batch";
    EXPECT_EQ(rest.num_documents, whole.num_documents);
    EXPECT_EQ(rest.num_empty, whole.num_empty);
    EXPECT_EQ(rest.read_bytes, whole.read_bytes);
  }
}

TEST_F(BuildParts, DamagedAndForeignPartsAreBuiltAgain) {
  build("a/d.shard");
  const std::map<std::string, std::string> expected = files("a");
  EXPECT_THROW(build("b/d.shard", 6), Interrupted);
  const std::string parts = parts_folder("b");
  const std::string first = read_all(parts + "/00000.shard");
  std::string flipped = read_all(parts + "/00002.shard");
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  std::ofstream(parts + "/00002.shard", std::ios::binary) << flipped;
  std::ofstream(parts + "/00099.shard.tmp", std::ios::binary) << "half written";
  EXPECT_EQ(build("b/d.shard").num_reused, 2);
  EXPECT_TRUE(files("b") == expected);

  EXPECT_THROW(build("c/d.shard", 6), Interrupted);
  std::ofstream(parts_folder("c") + "/00001.shard", std::ios::binary) << first;  // intact, but another part
  EXPECT_EQ(build("c/d.shard").num_reused, 1);
  EXPECT_TRUE(files("c") == expected);

  EXPECT_THROW(build("e/d.shard", 6), Interrupted);
  std::ofstream(parts_folder("e") + "/progress.json", std::ios::binary) << "{\"build_key\": ";
  EXPECT_EQ(build("e/d.shard").num_reused, 0);
  EXPECT_TRUE(files("e") == expected);
}

TEST_F(BuildParts, ChangedSourcesStartAfresh) {
  EXPECT_THROW(build("a/d.shard", 6), Interrupted);
  const std::string lines = read_all(folder_ / "d.jsonl");
  folder_.write("d.jsonl", lines + "{\"text\": \"one more\"}\n");
  EXPECT_EQ(build("a/d.shard").num_reused, 0);
  const std::map<std::string, std::string> changed = files("a");
  build("b/d.shard");
  EXPECT_TRUE(files("b") == changed) << "what the interrupted build left is gone";
  folder_.write("d.jsonl", "{\"text\": \"small\"}\n");
  EXPECT_EQ(build("a/d.shard").num_parts, 1);
  EXPECT_EQ(files("a").size(), 1U) << "one file, and no parts of the large build";
}

TEST_F(BuildParts, AFinishedBuildIsCheckedAndKept) {
  const BuildReport first = build("a/d.shard");
  const std::map<std::string, std::string> expected = files("a");
  const BuildReport again = build("a/d.shard");
  EXPECT_EQ(again.num_reused, first.num_parts);
  EXPECT_EQ(again.num_documents, first.num_documents);
  EXPECT_TRUE(files("a") == expected);
}

TEST_F(BuildParts, OneProcessAtATime) {
  EXPECT_THROW(build("a/d.shard", 6), Interrupted);
  const int other = ::open(parts_folder("a").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0) << "an interrupted build leaves no lock";
  const std::map<std::string, std::string> before = files("a");
  expect_error(ExitCode::kUsage, {"another process", "a/d.shard"}, [&] { build("a/d.shard"); });
  EXPECT_TRUE(files("a") == before);
  ::close(other);
  EXPECT_GT(build("a/d.shard").num_reused, 0);
}

TEST_F(BuildParts, ThreadsChangeNothing) {
  const int before = num_threads();
  set_num_threads(1);
  build("a/d.shard");
  set_num_threads(3);
  build("b/d.shard");
  set_num_threads(before);
  EXPECT_TRUE(files("a") == files("b"));
}

TEST_F(BuildParts, AnIndexThatDoesNotFitItsPartsIsFound) {
  build("a/d.shard");
  const std::string path = folder_ / "a/d.shard";
  const std::string parts = parts_folder("a");
  const std::string index = read_all(path);
  const std::string second = read_all(parts + "/00001.shard");
  const auto open = [&] { open_shards(path); };
  EXPECT_EQ(shard_files(path).size(), open_shards(path).size() + 1);

  fs::copy_file(parts + "/00000.shard", parts + "/00001.shard", fs::copy_options::overwrite_existing);
  expect_error(ExitCode::kCorrupt, {path, "00001.shard", "another shard than part 1"}, open);
  fs::remove(parts + "/00001.shard");
  expect_error(ExitCode::kCorrupt, {path, "part 1 is missing"}, open);
  std::ofstream(parts + "/00001.shard", std::ios::binary) << second.substr(0, second.size() - 1);
  expect_error(ExitCode::kCorrupt, {"00001.shard"}, open);
  std::ofstream(parts + "/00001.shard", std::ios::binary) << second;
  open();

  const std::string folder = fs::path(parts).filename().string();
  for (const std::string& other : {"../a/" + folder, "/" + folder, std::string(".."), std::string()}) {
    std::string changed = index;
    changed.replace(changed.find(folder), folder.size(), other);
    folder_.write("a/d.shard", changed);
    expect_error(ExitCode::kCorrupt, {path, "folder"}, open);
  }
  for (const std::string& bad : {index.substr(0, index.size() / 2), std::string("{}"), std::string("{\"format\": 3}")}) {
    folder_.write("a/d.shard", bad);
    expect_error(ExitCode::kCorrupt, {path}, open);
  }
}

}  // namespace
}  // namespace ida::data

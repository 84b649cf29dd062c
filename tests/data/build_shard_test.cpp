#include "data/build_shard.h"

#include "base/parallel.h"
#include "data/prepare_dataset.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

std::vector<std::int32_t> ids_of(const TokenDataset& dataset, std::int64_t document) {
  const DocumentView view = dataset.document(document);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(view.length()));
  view.copy_tokens(0, view.length(), ids.data());
  return ids;
}

BuildReport build(const std::vector<Source>& sources, const TokenEncoder& encoder, const std::string& path,
                  const BuildOptions& options = {}) {
  return build_shard(sources, encoder, path, build_key_of(sources, hash_files(sources), encoder, options), options);
}

TEST(BuildShard, PutsBosAndEosOnce) {
  TempFolder folder;
  const std::vector<Source> sources = find_sources({folder.write("a.txt", "hi")});
  const auto built = [&](const TokenEncoder& encoder) {
    build(sources, encoder, folder / "a.shard");
    return ids_of(TokenDataset::open({folder / "a.shard"}), 0);
  };
  EXPECT_EQ(built(ByteEncoder(true, true)), (std::vector<std::int32_t>{256, 'h', 'i', 257}));
  EXPECT_EQ(built(ByteEncoder(false, true)), (std::vector<std::int32_t>{'h', 'i', 257}));
  EXPECT_EQ(built(ByteEncoder(true, false)), (std::vector<std::int32_t>{256, 'h', 'i'}));
  EXPECT_EQ(built(ByteEncoder(false, false)), (std::vector<std::int32_t>{'h', 'i'}));
  struct Marked : ByteEncoder {
    std::vector<std::int32_t> encode(std::string_view) const override { return {256, 'x', 257}; }
  };
  EXPECT_EQ(built(Marked()), (std::vector<std::int32_t>{256, 'x', 257}));
}

TEST(BuildShard, CountsWhatItSkips) {
  TempFolder folder;
  folder.write("t/a", "text");
  folder.write("t/b", "");
  folder.write("t/c", std::string("x\0y", 3));
  folder.write("t/.d", "hidden");
  const std::string lines = folder.write("l.jsonl", "{\"text\": \"\"}\n{\"text\": \"caf\xc3\xa9\"}\n");
  const BuildReport report = build(find_sources({folder / "t", lines}), ByteEncoder(), folder / "new/dir/a.shard");
  EXPECT_EQ(report.num_documents, 2);
  EXPECT_EQ(report.num_tokens, 4 + 5 + 2 * 2);
  EXPECT_EQ(report.text_bytes, 9);
  EXPECT_EQ(report.num_empty, 2);
  EXPECT_EQ(report.num_binary, 1);
  EXPECT_EQ(report.num_left_out, 1);
  const TokenDataset dataset = TokenDataset::open({folder / "new/dir/a.shard"});
  EXPECT_EQ(dataset.source_names(), (std::vector<std::string>{"t", "l"}));
  EXPECT_EQ(dataset.document(1).source(), 1);
  EXPECT_EQ(dataset.document(1).text_bytes(), 5);
}

TEST(BuildShard, NothingToBuildLeavesNoFile) {
  TempFolder folder;
  folder.write("t/b", "");
  folder.write("t/c", std::string(3, '\0'));
  expect_error(ExitCode::kUsage, {"no document to train on (1 empty, 1 binary, 0 without a target)"},
               [&] { build(find_sources({folder / "t"}), ByteEncoder(), folder / "a.shard"); });
  EXPECT_EQ(folder.names(), std::vector<std::string>{"t"});
}

TEST(BuildShard, SameBytesForAnyThreadCount) {
  TempFolder folder;
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += fmt::format("{{\"text\": \"{}\"}}\n", std::string(static_cast<std::size_t>(i % 97), 'a'));
  const std::vector<Source> sources = find_sources({folder.write("l.jsonl", lines)});
  const int before = num_threads();
  std::vector<std::string> files;
  std::int64_t calls = 0;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const BuildReport report =
        build(sources, ByteEncoder(), folder / "a.shard", {.progress = [&](const BuildReport&) { ++calls; }});
    EXPECT_EQ(report.num_documents, 3000 - report.num_empty);
    files.push_back(read_all(folder / "a.shard"));
  }
  set_num_threads(before);
  EXPECT_EQ(files[0], files[1]);
  EXPECT_EQ(files[0], files[2]);
  EXPECT_EQ(calls, 3 * (1 + 3)) << "at the start and after each batch";
}

TEST(BuildShard, ErrorsOfWorkersArriveInDocumentOrder) {
  TempFolder folder;
  std::string lines;
  for (int i = 1; i <= 500; ++i) lines += i % 100 == 50 ? "{bad\n" : "{\"text\": \"ok\"}\n";
  const std::string path = folder.write("l.jsonl", lines);
  expect_error(ExitCode::kCorrupt, {path + ":50:"},
               [&] { build(find_sources({path}), ByteEncoder(), folder / "a.shard"); });
  EXPECT_FALSE(path_exists(folder / "a.shard"));
}

TEST(PrepareDataset, BuildsOnceAndNoticesChanges) {
  TempFolder folder;
  const std::string text = folder.write("a.txt", "hello");
  const ByteEncoder encoder;
  const PreparedData first = prepare_dataset({text}, encoder, folder / "a.shard");
  EXPECT_TRUE(first.built);
  const PreparedData again = prepare_dataset({text}, encoder, folder / "a.shard");
  EXPECT_FALSE(again.built);
  EXPECT_EQ(again.dataset.fingerprint(), first.dataset.fingerprint());
  folder.write("a.txt", "hellO");
  const PreparedData changed = prepare_dataset({text}, encoder, folder / "a.shard");
  EXPECT_TRUE(changed.built);
  EXPECT_NE(changed.dataset.fingerprint(), first.dataset.fingerprint());
  EXPECT_TRUE(prepare_dataset({text}, ByteEncoder(false), folder / "a.shard").built);
}

TEST(PrepareDataset, MixesTextAndShards) {
  TempFolder folder;
  const ByteEncoder encoder;
  build(find_sources({folder.write("old.txt", "old")}), encoder, folder / "old.shard");
  const std::string text = folder.write("new.txt", "new");
  const PreparedData data = prepare_dataset({folder / "old.shard", text}, encoder, folder / "cache.shard");
  EXPECT_EQ(data.dataset.source_names(), (std::vector<std::string>{"new", "old"}));
  EXPECT_EQ(data.entry_tokens, (std::vector<std::vector<std::int64_t>>{{0, 5}, {5, 0}}));
  EXPECT_EQ(data.source_weights({0.25, 3.0}), (std::vector<double>{3.0, 0.25}));
  EXPECT_TRUE(data.source_weights({}).empty());
  expect_error(ExitCode::kUsage, {"1 values for 2 entries"}, [&] { data.source_weights({1.0}); });
  const PreparedData only = prepare_dataset({folder / "old.shard"}, encoder, folder / "unused.shard");
  EXPECT_FALSE(only.built);
  EXPECT_FALSE(path_exists(folder / "unused.shard"));
  struct Other : ByteEncoder {
    std::string content_hash() const override { return "other"; }
  };
  expect_error(ExitCode::kUsage, {"old.shard", "tokenizer"},
               [&] { prepare_dataset({folder / "old.shard"}, Other(), folder / "unused.shard"); });
}

TEST(PrepareDataset, AShardOfSeveralSourcesSharesItsWeightByTokens) {
  TempFolder folder;
  ShardInfo info = test_info(258, {"x", "y"});
  info.tokenizer_hash = "bytes";
  std::vector<TestDocument> documents = counted_documents({30, 10});
  documents[1].source = 1;
  write_shard(folder / "s.shard", documents, info);
  const PreparedData data =
      prepare_dataset({folder / "s.shard", folder.write("y.txt", "12345678")}, ByteEncoder(), folder / "cache.shard");
  EXPECT_EQ(data.dataset.source_names(), (std::vector<std::string>{"y", "x"}));
  EXPECT_EQ(data.source_weights({8.0, 1.0}), (std::vector<double>{3.0, 6.0}));
}

}  // namespace
}  // namespace ida::data

#include "data/token_file.h"

#include "data/prepare_dataset.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

template <typename T>
std::string token_file(std::int32_t magic, std::int32_t version, const std::vector<T>& ids, std::int32_t extra = 0) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(ids.size()) + extra;
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  return bytes.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(T));
}

std::string narrow_file(const std::vector<std::uint16_t>& ids) { return token_file(20240520, 1, ids); }

std::vector<std::vector<std::int32_t>> documents_of(const PreparedData& data) {
  std::vector<std::vector<std::int32_t>> documents;
  for (std::int64_t d = 0; d < data.dataset.num_documents(); ++d) {
    const DocumentView view = data.dataset.document(d);
    view.copy_tokens(0, view.length(), documents.emplace_back(static_cast<std::size_t>(view.length())).data());
  }
  return documents;
}

TEST(TokenFile, DocumentsLieBetweenEosAndBecomeWhatTextBecomes) {
  TempFolder folder;
  const std::vector<std::vector<std::int32_t>> expected = {{256, 'a', 'b', 257}, {256, 'c', 257}, {256, 'd', 'e', 257}};
  const std::string narrow = folder.write("n.bin", narrow_file({257, 'a', 'b', 257, 257, 'c', 257, 256, 'd', 'e'}));
  const PreparedData data = prepare_dataset({narrow}, ByteEncoder(), folder / "n.shard");
  EXPECT_EQ(documents_of(data), expected);
  EXPECT_EQ(data.report.text_bytes, 5);
  const std::string wide =
      folder.write("w.bin", token_file<std::uint32_t>(20240801, 7, {'a', 'b', 257, 'c', 257, 'd', 'e', 257}));
  EXPECT_EQ(documents_of(prepare_dataset({wide}, ByteEncoder(), folder / "w.shard")), expected);
}

TEST(TokenFile, ReadingGoesOnFromAnyPosition) {
  TempFolder folder;
  const std::vector<Source> sources =
      find_sources({folder.write("n.bin", narrow_file({257, 1, 2, 257, 257, 3, 257, 4})), folder.write("t.txt", "x")});
  const auto rest = [&](const ReaderPosition& start) {
    DocumentReader reader(sources, start, 257);
    std::vector<std::string> places;
    for (RawDocument document; reader.next(document);) places.push_back(document.where());
    return places;
  };
  std::vector<std::string> expected = rest({});
  ASSERT_EQ(expected.size(), 4U);
  EXPECT_EQ(expected[1], folder / "n.bin, token 5");
  DocumentReader reader(sources, {}, 257);
  for (RawDocument document; reader.next(document);) {
    expected.erase(expected.begin());
    EXPECT_EQ(rest(document.next), expected);
  }
}

TEST(TokenFile, DamageIsNamed) {
  TempFolder folder;
  const std::string path = folder / "n.bin";
  const auto refused = [&](const std::string& content, ExitCode code, const std::vector<std::string>& parts,
                           const BuildOptions& options = {}, bool eos = true) {
    folder.write("n.bin", content);
    expect_error(code, parts, [&] { prepare_dataset({path}, ByteEncoder(true, eos), folder / "n.shard", options); });
  };
  const std::string good = narrow_file({1, 2, 257});
  refused(good.substr(0, 1023), ExitCode::kCorrupt, {path, "magic 0"});
  refused(good.substr(0, good.size() - 1), ExitCode::kCorrupt, {path, "3 tokens of 2 bytes"});
  refused(good + "x", ExitCode::kCorrupt, {path, "3 tokens of 2 bytes"});
  refused(token_file<std::uint16_t>(20240520, 2, {1}), ExitCode::kCorrupt, {path, "version 2"});
  refused(token_file<std::uint16_t>(20240520, 1, {1}, -2), ExitCode::kCorrupt, {path, "-1 tokens"});
  refused(narrow_file({1, 257, 2, 258}), ExitCode::kCorrupt, {path, "token 3 has id 258"});
  refused(token_file<std::uint32_t>(20240801, 7, {0xFFFFFFFFu}), ExitCode::kCorrupt, {path, "id 4294967295"});
  refused(good, ExitCode::kUsage, {path, "no answer"}, {.mask = LossMask::kAssistant, .progress = {}});
  refused(good, ExitCode::kUsage, {path, "EOS"}, {}, false);
  folder.write("n.bin", good);
  expect_error(ExitCode::kUsage, {path, "expected text"},
               [&] { for_each_document(find_sources({path}), [](std::string_view, std::int32_t) {}); });
}

}  // namespace
}  // namespace ida::data

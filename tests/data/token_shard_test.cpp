#include "data/token_shard.h"

#include <cstring>

#include "base/sha256.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

std::string open_error(const std::string& path) {
  try {
    TokenShard shard(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCorrupt) << error.what();
    return error.what();
  }
  return "";
}

ShardFooter footer_of(const std::string& bytes) {
  ShardFooter footer;
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof(footer), sizeof(footer));
  return footer;
}

// Recomputes every hash, as an attacker or a buggy writer would.
void rehash(std::string& bytes, ShardFooter footer) {
  const ShardLayout layout = shard_layout(footer);
  for (std::uint64_t chunk = 0; chunk < layout.num_chunks; ++chunk) {
    const std::uint64_t at = chunk * kShardChunkBytes;
    const std::string hash = sha256_hex(std::string_view(bytes).substr(at, std::min(kShardChunkBytes, layout.hashes - at)));
    bytes.replace(layout.hashes + chunk * kShardHashBytes, kShardHashBytes, hash);
  }
  const std::string table = bytes.substr(layout.hashes, layout.num_chunks * kShardHashBytes);
  sha256_hex(table).copy(footer.hashes_sha256.data(), kShardHashBytes);
  footer_hash(footer).copy(footer.footer_sha256.data(), kShardHashBytes);
  std::memcpy(bytes.data() + bytes.size() - sizeof(footer), &footer, sizeof(footer));
}

ShardInfo masked_info() {
  ShardInfo info = test_info(300, {"wiki", "code"});
  info.has_mask = true;
  info.bos_id = 256;
  info.eos_id = 257;
  info.build_key = "key";
  return info;
}

std::vector<TestDocument> masked_documents() {
  return {{{256, 1, 2, 257}, 0, {0, 1, 0, 1}, 11}, {{}, 1, {}, 0}, {{256, 3, 299, 0, 257}, 1, {}, 12}};
}

TEST(TokenShard, RoundTrip) {
  TempFolder folder;
  const std::string path = folder / "a.shard";
  write_shard(path, masked_documents(), masked_info());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.shard"});
  const TokenShard shard(path);
  EXPECT_EQ(shard.vocab_size(), 300);
  EXPECT_EQ(shard.num_tokens(), 9);
  EXPECT_EQ(shard.num_documents(), 3);
  EXPECT_EQ(shard.bos_id(), 256);
  EXPECT_EQ(shard.eos_id(), 257);
  EXPECT_EQ(shard.tokenizer_hash(), "tok");
  EXPECT_EQ(shard.build_key(), "key");
  EXPECT_EQ(shard.source_names(), (std::vector<std::string>{"wiki", "code"}));
  const auto documents = masked_documents();
  for (std::int64_t d = 0; d < 3; ++d) {
    const TestDocument& document = documents[static_cast<std::size_t>(d)];
    ASSERT_EQ(shard.document_length(d), static_cast<std::int64_t>(document.tokens.size()));
    EXPECT_EQ(shard.document_source(d), document.source);
    EXPECT_EQ(shard.document_text_bytes(d), static_cast<std::int64_t>(document.text_bytes));
    std::vector<std::int32_t> copy(document.tokens.size());
    shard.copy_tokens(shard.document_begin(d), shard.document_length(d), copy.data());
    EXPECT_EQ(copy, document.tokens);
    for (std::size_t i = 0; i < document.tokens.size(); ++i) {
      const std::int64_t at = shard.document_begin(d) + static_cast<std::int64_t>(i);
      EXPECT_EQ(shard.token(at), document.tokens[i]);
      EXPECT_EQ(shard.trained(at), document.trained.empty() || document.trained[i] != 0);
    }
  }
}

TEST(TokenShard, AMaskMayComeWithALaterDocument) {
  TempFolder folder;
  std::vector<TestDocument> documents = counted_documents({11, 3, 4});
  documents[1].trained = {0, 1, 0};
  write_shard(folder / "a.shard", documents, test_info(20));
  const TokenShard shard(folder / "a.shard");
  EXPECT_TRUE(shard.has_mask());
  for (std::int64_t at = 0; at < 18; ++at) EXPECT_EQ(shard.trained(at), at != 11 && at != 13) << at;
}

// The places of a shard of 20 GiB, without the file: every section begins where the one before it ends.
TEST(TokenShard, PlacesBeyond32Bits) {
  ShardFooter footer;
  footer.vocab_size = 50000;
  footer.has_mask = 1;
  footer.num_tokens = 9'000'000'001;
  footer.num_documents = 40'000'000;
  footer.strings_bytes = 100;
  const ShardLayout layout = shard_layout(footer);
  EXPECT_EQ(layout.mask, 16U + 18'000'000'002U + 6U);
  EXPECT_EQ(layout.offsets, layout.mask + 1'125'000'001U + 7U);
  EXPECT_EQ(layout.text_bytes, layout.offsets + 8U * 40'000'001U);
  EXPECT_EQ(layout.source_ids, layout.text_bytes + 8U * 40'000'000U);
  EXPECT_EQ(layout.strings, layout.source_ids + 2U * 40'000'000U);
  EXPECT_EQ(layout.hashes, layout.strings + 104U);
  EXPECT_EQ(layout.num_chunks, (layout.hashes + kShardChunkBytes - 1) / kShardChunkBytes);
  EXPECT_EQ(layout.footer, layout.hashes + 64U * layout.num_chunks);
  footer.vocab_size = 70000;
  EXPECT_EQ(shard_layout(footer).mask, 16U + 36'000'000'004U + 4U);
}

TEST(TokenShard, TokenWidthFollowsTheVocabulary) {
  TempFolder folder;
  for (const std::int64_t vocab : {65536, 65537, 2147483647}) {
    const auto last = static_cast<std::int32_t>(vocab - 1);
    write_shard(folder / "w.shard", {{{0, last, 1}}}, test_info(vocab));
    const TokenShard shard(folder / "w.shard");
    EXPECT_EQ(shard.token(1), last);
    std::vector<std::int32_t> copy(3);
    shard.copy_tokens(0, 3, copy.data());
    EXPECT_EQ(copy, (std::vector<std::int32_t>{0, last, 1}));
  }
}

TEST(TokenShard, WriterRefusesIdsOutsideTheVocabulary) {
  TempFolder folder;
  folder.write("x.shard", "old");
  for (const std::int32_t id : {-1, 10, 70000}) {
    expect_error(ExitCode::kRuntime, {"document 1", "token 2", "vocabulary of 10"}, [&] {
      write_shard(folder / "x.shard", {{{1}}, {{1, 2, id}}}, test_info(10));
    });
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x.shard"});
  EXPECT_EQ(read_all(folder / "x.shard"), "old");
}

TEST(TokenShard, AFlippedBitInAnyByteIsFound) {
  TempFolder folder;
  write_shard(folder / "a.shard", masked_documents(), masked_info());
  const std::string good = read_all(folder / "a.shard");
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    const bool in_counts = byte < sizeof(ShardPreamble) || byte + sizeof(ShardFooter) >= good.size();
    for (int bit = 0; bit < 8; ++bit) {
      if (!in_counts && bit != static_cast<int>(byte % 8)) continue;
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << bit));
      const std::string error = open_error(folder.write("b.shard", bad));
      EXPECT_NE(error.find("b.shard"), std::string::npos) << "byte " << byte << " bit " << bit << ": " << error;
    }
  }
}

TEST(TokenShard, EveryTruncationAndExtensionIsFound) {
  TempFolder folder;
  write_shard(folder / "a.shard", masked_documents(), masked_info());
  const std::string good = read_all(folder / "a.shard");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(open_error(folder.write("b.shard", good.substr(0, size))), "") << size;
  }
  EXPECT_NE(open_error(folder.write("b.shard", good + '\0')), "");
  EXPECT_NE(open_error(folder.write("b.shard", '\0' + good)), "");
  EXPECT_NE(open_error(folder.write("b.shard", good + good)), "");
}

TEST(TokenShard, FooterFieldsAreCheckedEvenWithRightHashes) {
  TempFolder folder;
  write_shard(folder / "a.shard", masked_documents(), masked_info());
  const std::string good = read_all(folder / "a.shard");
  for (std::size_t field = 0; field < 9; ++field) {
    for (const std::int64_t change :
         {std::int64_t{-400}, std::int64_t{-1}, std::int64_t{1}, std::int64_t{1} << 32, std::int64_t{1} << 62}) {
      ShardFooter footer = footer_of(good);
      std::int64_t value = 0;
      std::memcpy(&value, reinterpret_cast<char*>(&footer) + field * 8, 8);
      value += change;
      std::memcpy(reinterpret_cast<char*>(&footer) + field * 8, &value, 8);
      // A vocabulary one larger and another special id are lies that no check of sizes can see.
      if (field == 0 && change == 1) continue;
      if ((field == 1 || field == 2) && value >= -1 && value < 300) continue;
      std::string bad = good;
      footer_hash(footer).copy(footer.footer_sha256.data(), kShardHashBytes);
      std::memcpy(bad.data() + bad.size() - sizeof(footer), &footer, sizeof(footer));
      EXPECT_NE(open_error(folder.write("b.shard", bad)), "") << "field " << field << " + " << change;
    }
  }
}

TEST(TokenShard, ContentIsCheckedEvenWithRightHashes) {
  TempFolder folder;
  write_shard(folder / "a.shard", masked_documents(), masked_info());
  const std::string good = read_all(folder / "a.shard");
  const ShardFooter footer = footer_of(good);
  const ShardLayout layout = shard_layout(footer);
  const auto with = [&](std::uint64_t at, auto value) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &value, sizeof(value));
    rehash(bad, footer);
    return open_error(folder.write("b.shard", bad));
  };
  EXPECT_EQ(with(layout.tokens, std::uint16_t{299}), "");  // the helper itself makes valid shards
  const std::string id = with(layout.tokens + 2 * 6, std::uint16_t{300});
  EXPECT_NE(id.find("document 2, offset 2: token id 300, expected less than 300"), std::string::npos) << id;
  EXPECT_NE(with(layout.offsets, std::uint64_t{1}).find("document 0 starts"), std::string::npos);
  EXPECT_NE(with(layout.offsets + 8, std::uint64_t{5}).find("document 1 ends at token 4"), std::string::npos);
  EXPECT_NE(with(layout.offsets + 16, std::uint64_t{1} << 60).find("document 1 ends"), std::string::npos);
  EXPECT_NE(with(layout.offsets + 24, std::uint64_t{8}).find("expected 9"), std::string::npos);
  EXPECT_NE(with(layout.source_ids + 2, std::uint16_t{2}).find("document 1 has source 2"), std::string::npos);
  EXPECT_NE(with(layout.text_bytes, ~std::uint64_t{0}).find("document 0 claims"), std::string::npos);
  EXPECT_NE(with(layout.strings, std::uint32_t{0xFFFFFFFF}).find("names end early"), std::string::npos);
  EXPECT_NE(with(layout.strings, std::uint32_t{2}), "");
}

TEST(TokenShard, DamageInALargeShardIsPlaced) {
  TempFolder folder;
  std::vector<TestDocument> documents;
  for (int d = 0; d < 40; ++d) documents.push_back({std::vector<std::int32_t>(40000, d), 0, {}, 1});
  write_shard(folder / "a.shard", documents, test_info(50));
  std::string bytes = read_all(folder / "a.shard");
  ASSERT_GT(bytes.size(), 3 * kShardChunkBytes);
  EXPECT_EQ(open_error(folder / "a.shard"), "");
  bytes[2 * kShardChunkBytes + 77] ^= 4;
  const std::string error = open_error(folder.write("b.shard", bytes));
  EXPECT_NE(error.find("bytes 2097152 to 3145727 (token 1048568, document 26 to token 1572855, document 39)"),
            std::string::npos)
      << error;
}

TEST(TokenShard, OtherVersionsAndOtherFiles) {
  TempFolder folder;
  write_shard(folder / "a.shard", masked_documents(), masked_info());
  std::string bytes = read_all(folder / "a.shard");
  bytes[8] = 2;
  EXPECT_NE(open_error(folder.write("b.shard", bytes)).find("version 2, this program reads version 1"), std::string::npos);
  EXPECT_NE(open_error(folder.write("c.shard", std::string(5000, 'x'))).find("not a token shard"), std::string::npos);
  expect_error(ExitCode::kRuntime, {"none.shard"}, [&] { TokenShard shard(folder / "none.shard"); });
}

TEST(TokenDataset, MergesShardsAndNamesSources) {
  TempFolder folder;
  write_shard(folder / "1.shard", counted_documents({3, 2}), test_info(100, {"wiki", "unused"}));
  std::vector<TestDocument> second = counted_documents({4, 1, 5}, 50);
  second[0].source = 1;
  write_shard(folder / "2.shard", second, test_info(100, {"code", "wiki"}));
  const TokenDataset dataset = TokenDataset::open({folder / "1.shard", folder / "2.shard"});
  EXPECT_EQ(dataset.num_documents(), 5);
  EXPECT_EQ(dataset.num_tokens(), 15);
  EXPECT_EQ(dataset.source_names(), (std::vector<std::string>{"wiki", "unused", "code"}));
  std::vector<std::int32_t> sources, firsts;
  for (std::int64_t d = 0; d < 5; ++d) {
    sources.push_back(dataset.document(d).source());
    firsts.push_back(dataset.document(d).token(0));
  }
  EXPECT_EQ(sources, (std::vector<std::int32_t>{0, 0, 0, 2, 2}));
  EXPECT_EQ(firsts, (std::vector<std::int32_t>{0, 3, 50, 54, 55}));
}

TEST(TokenDataset, FingerprintFollowsContentAndOrder) {
  TempFolder folder;
  write_shard(folder / "1.shard", counted_documents({3, 2}), test_info(100));
  write_shard(folder / "same.shard", counted_documents({3, 2}), test_info(100));
  write_shard(folder / "cut.shard", counted_documents({2, 3}), test_info(100));
  write_shard(folder / "2.shard", counted_documents({3, 2}, 1), test_info(100));
  const auto print = [&](const std::vector<std::string>& names) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(folder / name);
    return TokenDataset::open(paths).fingerprint();
  };
  EXPECT_EQ(print({"1.shard"}), print({"same.shard"}));
  EXPECT_NE(print({"1.shard"}), print({"cut.shard"}));
  EXPECT_NE(print({"1.shard"}), print({"2.shard"}));
  EXPECT_NE(print({"1.shard", "2.shard"}), print({"2.shard", "1.shard"}));
  EXPECT_NE(print({"1.shard", "2.shard"}), print({"1.shard"}));
}

TEST(TokenDataset, RefusesShardsOfDifferentTokenizers) {
  TempFolder folder;
  write_shard(folder / "1.shard", counted_documents({3}), test_info(100));
  ShardInfo other = test_info(100);
  other.tokenizer_hash = "other";
  write_shard(folder / "2.shard", counted_documents({3}), other);
  write_shard(folder / "3.shard", counted_documents({3}), test_info(101));
  for (const char* name : {"2.shard", "3.shard"}) {
    expect_error(ExitCode::kUsage, {name, "one tokenizer"}, [&] {
      TokenDataset::open({folder / "1.shard", folder / name});
    });
  }
  expect_error(ExitCode::kUsage, {"no token shard"}, [] { TokenDataset::open({}); });
}

TEST(TokenDataset, TextBytesAddUpAndLeaveOutBosAndEos) {
  TempFolder folder;
  ShardInfo info = test_info(300);
  info.bos_id = 256;
  info.eos_id = 257;
  const TokenDataset dataset = dataset_of(folder, {{{256, 1, 2, 3, 257}, 0, {}, 10}, {{256, 257}, 0, {}, 4}}, info);
  std::vector<std::int64_t> before;
  for (std::int64_t at = 0; at <= 5; ++at) before.push_back(dataset.document(0).text_bytes_before(at));
  EXPECT_EQ(before, (std::vector<std::int64_t>{0, 0, 3, 6, 10, 10}));
  EXPECT_EQ(dataset.document(1).text_bytes_before(2), 4);
}

}  // namespace
}  // namespace ida::data

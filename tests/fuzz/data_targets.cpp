// Token shards, and the index of the parts of a large one.
#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/sha256.h"
#include "data/shard_index.h"
#include "data/shard_writer.h"
#include "data/token_dataset.h"
#include "fuzz/support.h"

namespace ida::fuzz {
namespace {

using data::kShardChunkBytes;
using data::kShardHashBytes;
using data::ShardFooter;
using data::ShardLayout;

constexpr std::size_t kMaxShardBytes = 1 << 16;

// The shard that `file` would be if its counts were meant: sections cut or filled up to the sizes that the footer asks
// for, then every hash made right. Counts that make no small file leave it as it is.
std::string repaired_shard(std::string_view file) {
  ShardFooter footer;
  if (file.size() < sizeof(data::ShardPreamble) + sizeof(footer)) return std::string(file);
  std::memcpy(&footer, file.data() + file.size() - sizeof(footer), sizeof(footer));
  for (const std::uint64_t count : {footer.num_tokens, footer.num_documents, footer.strings_bytes}) {
    if (count > kMaxShardBytes / 8) return std::string(file);
  }
  const ShardLayout layout = data::shard_layout(footer);
  std::string shard(file.substr(0, file.size() - sizeof(footer)));
  shard.resize(layout.hashes, '\0');
  std::string hashes;
  for (std::size_t at = 0; at < shard.size(); at += kShardChunkBytes) {
    hashes += sha256_hex(std::string_view(shard).substr(at, kShardChunkBytes));
  }
  shard += hashes;
  footer.file_bytes = shard.size() + sizeof(footer);
  sha256_hex(hashes).copy(footer.hashes_sha256.data(), kShardHashBytes);
  data::footer_hash(footer).copy(footer.footer_sha256.data(), kShardHashBytes);
  return shard.append(reinterpret_cast<const char*>(&footer), sizeof(footer));
}

// Reads every token of every document the ways a batch does.
void use_shard(const std::string& path) {
  const data::TokenDataset dataset = data::TokenDataset::open({path});
  require(dataset.fingerprint().size() == kShardHashBytes, "a fingerprint of another length");
  std::int64_t num_tokens = 0;
  std::vector<std::int32_t> copied;
  for (std::int64_t d = 0; d < dataset.num_documents(); ++d) {
    const data::DocumentView document = dataset.document(d);
    require(document.length() >= 0, "a document of negative length");
    require(document.source() >= 0 && static_cast<std::size_t>(document.source()) < dataset.source_names().size(),
            "a document of no source");
    copied.assign(static_cast<std::size_t>(document.length()), -1);
    document.copy_tokens(0, document.length(), copied.data());
    for (std::int64_t at = 0; at < document.length(); ++at) {
      const std::int32_t id = document.token(at);
      require(id >= 0 && id < dataset.vocab_size(), "a token id outside the vocabulary");
      require(id == copied[static_cast<std::size_t>(at)], "two ways to read a token disagree");
      static_cast<void>(document.trained(at));
    }
    require(document.text_bytes_before(document.length()) == document.text_bytes(), "bytes of text were lost");
    num_tokens += document.length();
  }
  require(num_tokens == dataset.num_tokens(), "tokens that belong to no document");
}

void write_shard(const std::string& path, std::int64_t vocab_size, bool with_mask) {
  data::ShardWriter writer(path, {.vocab_size = vocab_size,
                                  .bos_id = 1,
                                  .eos_id = 2,
                                  .has_mask = with_mask,
                                  .tokenizer_hash = "t",
                                  .build_key = "k",
                                  .source_names = {"wiki", "code"}});
  const std::vector<std::int32_t> tokens = {1, 5, 6, 7, 2};
  const std::vector<std::uint8_t> trained = {0, 0, 1, 1, 1};
  writer.add_document({.tokens = tokens,
                       .trained = with_mask ? std::span(trained) : std::span<const std::uint8_t>(),
                       .source = 0,
                       .text_bytes = 11});
  writer.add_document({.tokens = {}, .trained = {}, .source = 1, .text_bytes = 0});
  writer.add_document({.tokens = std::span(tokens).first(2), .trained = {}, .source = 1, .text_bytes = 3});
  writer.finish();
}

std::string shard_seed(std::int64_t vocab_size, bool with_mask) {
  write_shard(scratch_folder() + "/seed.shard", vocab_size, with_mask);
  return read_scratch_file("seed.shard");
}

// Two parts in a folder of the scratch folder, written once, and the index that names them.
const data::ShardIndex& written_parts() {
  static const data::ShardIndex index = [] {
    const std::string folder = scratch_folder() + "/parts";
    make_directories(folder);
    data::ShardIndex made{.build_key = "k", .folder = "parts", .parts = {}};
    for (std::size_t i = 0; i < 2; ++i) {
      write_shard(data::part_path(folder, i), 300, true);
      made.parts.push_back(data::part_of(data::TokenShard(data::part_path(folder, i))));
    }
    return made;
  }();
  return index;
}

}  // namespace

// A byte, then the bytes of a shard. Even byte: as they are; odd: as repaired_shard makes them.
void run_token_shard(Input input) {
  if (input.empty()) return;
  const std::string_view body = text_of(input).substr(1);
  const bool repair = (std::to_integer<unsigned>(input[0]) & 1) != 0;
  const std::string path = scratch_file("input.shard", repair ? repaired_shard(body) : std::string(body));
  accepted({ExitCode::kUsage, ExitCode::kCorrupt}, [&] { use_shard(path); });
}

std::vector<std::string> token_shard_seeds() {
  const std::string narrow = shard_seed(300, true);
  return {"1" + narrow, "0" + narrow, "1" + shard_seed(70000, false)};
}

// The bytes of an index, whose parts lie beside it.
void run_shard_index(Input input) {
  written_parts();
  const std::string path = scratch_file("index.shard", text_of(input));
  accepted({ExitCode::kUsage, ExitCode::kCorrupt}, [&] {
    for (const std::string& file : data::shard_files(path))
      require(file == path || parent_path(parent_path(file)) == scratch_folder(), "a part outside its folder");
  });
  accepted({ExitCode::kUsage, ExitCode::kCorrupt}, [&] { use_shard(path); });
}

std::vector<std::string> shard_index_seeds() {
  data::ShardIndex index = written_parts();
  const auto written = [&] {
    data::write_shard_index(scratch_folder() + "/seed.shard", index);
    return read_scratch_file("seed.shard");
  };
  const std::string both = written();
  index.parts.pop_back();
  return {both, written()};
}

}  // namespace ida::fuzz

#include "data/token_shard.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/parallel.h"
#include "base/sha256.h"

namespace ida::data {
namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kTokensPerCheck = std::uint64_t{1} << 18;

void keep_smallest(std::atomic<std::uint64_t>& smallest, std::uint64_t value) {
  std::uint64_t seen = smallest.load();
  while (value < seen && !smallest.compare_exchange_weak(seen, value)) {
  }
}

template <typename T>
std::uint64_t first_id_outside(const T* tokens, std::uint64_t num_tokens, std::uint64_t vocab_size) {
  std::atomic<std::uint64_t> first{kNone};
  parallel_for(static_cast<std::int64_t>(num_tokens), kTokensPerCheck, [&](std::int64_t begin, std::int64_t end) {
    const T* bad = std::find_if(tokens + begin, tokens + end, [&](T id) { return id >= vocab_size; });
    if (bad != tokens + end) keep_smallest(first, static_cast<std::uint64_t>(bad - tokens));
  });
  return first;
}

}  // namespace

TokenShard::TokenShard(const std::string& path) : file_(path) {
  read_footer();
  const std::byte* data = file_.bytes().data();
  if (layout_.token_width_bytes == 2) {
    narrow_ = reinterpret_cast<const std::uint16_t*>(data + layout_.tokens);
  } else {
    wide_ = reinterpret_cast<const std::uint32_t*>(data + layout_.tokens);
  }
  if (footer_.has_mask != 0) mask_ = reinterpret_cast<const std::uint8_t*>(data + layout_.mask);
  offsets_ = reinterpret_cast<const std::uint64_t*>(data + layout_.offsets);
  text_bytes_ = reinterpret_cast<const std::uint64_t*>(data + layout_.text_bytes);
  source_ids_ = reinterpret_cast<const std::uint16_t*>(data + layout_.source_ids);
  check_hashes();
  read_strings();
  check_documents();
  check_token_ids();
}

void TokenShard::read_footer() {
  const std::span<const std::byte> bytes = file_.bytes();
  constexpr std::uint64_t kSmallest = sizeof(ShardPreamble) + sizeof(ShardFooter);
  if (bytes.size() < kSmallest) {
    fail_corrupt("{}: {} bytes are too few for a token shard (at least {}); build it again", path(), bytes.size(),
                 kSmallest);
  }
  ShardPreamble preamble;
  std::memcpy(&preamble, bytes.data(), sizeof(preamble));
  if (preamble.magic != kShardMagic) fail_corrupt("{}: not a token shard (byte 0: wrong magic)", path());
  if (preamble.version != kShardVersion || preamble.reserved != 0) {
    fail_corrupt("{}: token shard version {}, this program reads version {}; build it again", path(), preamble.version,
                 kShardVersion);
  }
  std::memcpy(&footer_, bytes.data() + bytes.size() - sizeof(footer_), sizeof(footer_));
  const std::string_view stored(footer_.footer_sha256.data(), kShardHashBytes);
  if (footer_hash(footer_) != stored) {
    fail_corrupt("{}: the footer at byte {} does not match its sha256: the shard is cut or changed; build it again", path(),
                 bytes.size() - sizeof(footer_));
  }
  if (footer_.file_bytes != bytes.size()) {
    fail_corrupt("{}: {} bytes, expected {}; build it again", path(), bytes.size(), footer_.file_bytes);
  }
  constexpr std::uint64_t kMaxVocab = std::numeric_limits<std::int32_t>::max();
  const auto vocab = static_cast<std::int64_t>(std::min(footer_.vocab_size, kMaxVocab));
  const bool plausible = footer_.vocab_size >= 1 && footer_.vocab_size <= kMaxVocab && footer_.bos_id >= -1 &&
                         footer_.bos_id < vocab && footer_.eos_id >= -1 && footer_.eos_id < vocab &&
                         footer_.num_tokens <= bytes.size() && footer_.num_documents <= bytes.size() &&
                         footer_.num_sources < std::numeric_limits<std::uint16_t>::max() && footer_.has_mask <= 1 &&
                         footer_.strings_bytes <= bytes.size();
  if (!plausible) fail_corrupt("{}: the footer holds impossible counts or ids; build it again", path());
  layout_ = shard_layout(footer_);
  if (layout_.footer + sizeof(ShardFooter) != bytes.size()) {
    fail_corrupt("{}: {} bytes, but its counts need {}; build it again", path(), bytes.size(),
                 layout_.footer + sizeof(ShardFooter));
  }
}

void TokenShard::check_hashes() const {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string_view hashes(reinterpret_cast<const char*>(bytes.data() + layout_.hashes),
                                layout_.num_chunks * kShardHashBytes);
  if (sha256_hex(hashes) != std::string_view(footer_.hashes_sha256.data(), kShardHashBytes)) {
    fail_corrupt("{}: the hash table at byte {} does not match its sha256; build the shard again", path(), layout_.hashes);
  }
  std::atomic<std::uint64_t> first{kNone};
  parallel_for(static_cast<std::int64_t>(layout_.num_chunks), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto chunk = static_cast<std::uint64_t>(begin); chunk < static_cast<std::uint64_t>(end); ++chunk) {
      const std::uint64_t at = chunk * kShardChunkBytes;
      const std::uint64_t size = std::min(kShardChunkBytes, layout_.hashes - at);
      if (sha256_hex(bytes.subspan(at, size)) != hashes.substr(chunk * kShardHashBytes, kShardHashBytes)) {
        keep_smallest(first, chunk);
      }
    }
  });
  if (first == kNone) return;
  const std::uint64_t at = first * kShardChunkBytes;
  const std::uint64_t last = std::min(at + kShardChunkBytes, layout_.hashes) - 1;
  fail_corrupt("{}: bytes {} to {} ({} to {}) do not match their sha256; build the shard again", path(), at, last,
               place_of(at), place_of(last));
}

bool TokenShard::offsets_in_order() const {
  return offsets_[0] == 0 && offsets_[footer_.num_documents] == footer_.num_tokens &&
         std::is_sorted(offsets_, offsets_ + footer_.num_documents + 1);
}

std::int64_t TokenShard::document_of(std::uint64_t token) const {
  return std::upper_bound(offsets_, offsets_ + footer_.num_documents + 1, token) - offsets_ - 1;
}

// What a byte belongs to, in words. Works on damaged files: the offsets are used only while they are in order.
std::string TokenShard::place_of(std::uint64_t byte) const {
  if (byte < layout_.tokens) return "preamble";
  if (byte < layout_.mask) {
    const std::uint64_t token = (byte - layout_.tokens) / layout_.token_width_bytes;
    if (token >= footer_.num_tokens) return "end of tokens";
    if (!offsets_in_order()) return fmt::format("token {}", token);
    return fmt::format("token {}, document {}", token, document_of(token));
  }
  if (byte < layout_.offsets) return "loss mask";
  if (byte < layout_.text_bytes) return fmt::format("offset of document {}", (byte - layout_.offsets) / 8);
  if (byte < layout_.source_ids) return fmt::format("text size of document {}", (byte - layout_.text_bytes) / 8);
  if (byte < layout_.strings) return "source ids";
  return "names";
}

void TokenShard::read_strings() {
  const std::string_view strings(reinterpret_cast<const char*>(file_.bytes().data() + layout_.strings),
                                 footer_.strings_bytes);
  std::size_t at = 0;
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < footer_.num_sources + 2; ++i) {
    std::uint32_t size = 0;
    if (strings.size() - at < sizeof(size)) fail_corrupt("{}: names end early at byte {}", path(), layout_.strings + at);
    std::memcpy(&size, strings.data() + at, sizeof(size));
    at += sizeof(size);
    if (strings.size() - at < size) fail_corrupt("{}: names end early at byte {}", path(), layout_.strings + at);
    all.emplace_back(strings.substr(at, size));
    at += size;
  }
  if (at != strings.size()) fail_corrupt("{}: unused bytes after the names, at byte {}", path(), layout_.strings + at);
  tokenizer_hash_ = all[0];
  build_key_ = all[1];
  source_names_.assign(all.begin() + 2, all.end());
}

void TokenShard::check_documents() const {
  const std::uint64_t n = footer_.num_documents;
  if (offsets_[0] != 0) fail_corrupt("{}: document 0 starts at token {}, expected 0", path(), offsets_[0]);
  for (std::uint64_t i = 0; i < n; ++i) {
    if (offsets_[i + 1] < offsets_[i] || offsets_[i + 1] > footer_.num_tokens) {
      fail_corrupt("{}: document {} ends at token {}, expected {} to {}", path(), i, offsets_[i + 1], offsets_[i],
                   footer_.num_tokens);
    }
    if (source_ids_[i] >= footer_.num_sources) {
      fail_corrupt("{}: document {} has source {}, the shard has {}", path(), i, source_ids_[i], footer_.num_sources);
    }
    if (text_bytes_[i] > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail_corrupt("{}: document {} claims {} bytes of text", path(), i, text_bytes_[i]);
    }
  }
  if (offsets_[n] != footer_.num_tokens) {
    fail_corrupt("{}: documents end at token {}, expected {}", path(), offsets_[n], footer_.num_tokens);
  }
}

void TokenShard::check_token_ids() const {
  const std::uint64_t bad = narrow_ != nullptr ? first_id_outside(narrow_, footer_.num_tokens, footer_.vocab_size)
                                               : first_id_outside(wide_, footer_.num_tokens, footer_.vocab_size);
  if (bad == kNone) return;
  const std::int64_t document = document_of(bad);
  fail_corrupt("{}: document {}, offset {}: token id {}, expected less than {}", path(), document, bad - offsets_[document],
               narrow_ != nullptr ? narrow_[bad] : wide_[bad], footer_.vocab_size);
}

void TokenShard::copy_tokens(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
  if (narrow_ != nullptr) {
    std::copy_n(narrow_ + begin, count, out);
  } else {
    std::transform(wide_ + begin, wide_ + begin + count, out,
                   [](std::uint32_t id) { return static_cast<std::int32_t>(id); });
  }
}

}  // namespace ida::data

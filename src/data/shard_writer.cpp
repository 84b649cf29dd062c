#include "data/shard_writer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ida::data {
namespace {

void append_string(std::string& strings, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  strings.append(reinterpret_cast<const char*>(&size), sizeof(size));
  strings.append(text);
}

}  // namespace

ShardWriter::ShardWriter(const std::string& path, ShardInfo info) : file_(path), info_(std::move(info)) {
  assert(info_.vocab_size > 0 && info_.vocab_size <= std::numeric_limits<std::int32_t>::max());
  assert(info_.source_names.size() < std::numeric_limits<std::uint16_t>::max());
  const ShardPreamble preamble;
  put(std::as_bytes(std::span(&preamble, 1)));
}

void ShardWriter::put(std::span<const std::byte> bytes) {
  file_.write(bytes);
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), kShardChunkBytes - chunk_used_bytes_);
    chunk_hash_.update(bytes.first(size));
    chunk_used_bytes_ += size;
    bytes = bytes.subspan(size);
    if (chunk_used_bytes_ == kShardChunkBytes) {
      hashes_ += chunk_hash_.hex();
      chunk_hash_ = Sha256();
      chunk_used_bytes_ = 0;
    }
  }
}

void ShardWriter::put_aligned(std::span<const std::byte> bytes) {
  put(bytes);
  constexpr std::array<std::byte, 8> kZeros{};
  put(std::span(kZeros).first((8 - file_.size_bytes() % 8) % 8));
}

template <typename T>
void ShardWriter::put_tokens(const ShardDocument& document) {
  staging_.resize(document.tokens.size() * sizeof(T));
  for (std::size_t i = 0; i < document.tokens.size(); ++i) {
    const std::int32_t id = document.tokens[i];
    if (id < 0 || id >= info_.vocab_size) {
      fail_runtime("document {}: token {} has id {}, outside the tokenizer's vocabulary of {}", num_documents(), i, id,
                   info_.vocab_size);
    }
    const auto narrow = static_cast<T>(id);
    std::memcpy(staging_.data() + i * sizeof(T), &narrow, sizeof(T));
  }
  put(staging_);
}

void ShardWriter::add_document(const ShardDocument& document) {
  assert(document.source >= 0 && static_cast<std::size_t>(document.source) < info_.source_names.size());
  assert(document.trained.empty() || document.trained.size() == document.tokens.size());
  if (info_.vocab_size <= 65536) {
    put_tokens<std::uint16_t>(document);
  } else {
    put_tokens<std::uint32_t>(document);
  }
  add_to_mask(document);
  offsets_.push_back(offsets_.back() + document.tokens.size());
  text_bytes_.push_back(document.text_bytes);
  source_ids_.push_back(static_cast<std::uint16_t>(document.source));
}

void ShardWriter::add_to_mask(const ShardDocument& document) {
  const std::uint64_t begin = offsets_.back();
  const std::uint64_t end = begin + document.tokens.size();
  const auto set = [&](std::uint64_t i) { mask_[i / 8] = static_cast<std::uint8_t>(mask_[i / 8] | (1U << (i % 8))); };
  if (!document.trained.empty() && !info_.has_mask) {  // the first mask: everything before it may be a target
    info_.has_mask = true;
    mask_.resize((begin + 7) / 8, 0);
    for (std::uint64_t i = 0; i < begin; ++i) set(i);
  }
  if (!info_.has_mask) return;
  mask_.resize((end + 7) / 8, 0);
  for (std::uint64_t i = begin; i < end; ++i) {
    if (document.trained.empty() || document.trained[i - begin] != 0) set(i);
  }
}

std::string ShardWriter::finish() {
  put_aligned({});
  put_aligned(std::as_bytes(std::span(mask_)));
  put_aligned(std::as_bytes(std::span(offsets_)));
  put_aligned(std::as_bytes(std::span(text_bytes_)));
  put_aligned(std::as_bytes(std::span(source_ids_)));
  std::string strings;
  append_string(strings, info_.tokenizer_hash);
  append_string(strings, info_.build_key);
  for (const std::string& name : info_.source_names) append_string(strings, name);
  put_aligned(as_bytes(strings));
  if (chunk_used_bytes_ > 0) hashes_ += chunk_hash_.hex();
  file_.write(hashes_);

  ShardFooter footer;
  footer.vocab_size = static_cast<std::uint64_t>(info_.vocab_size);
  footer.bos_id = info_.bos_id.value_or(-1);
  footer.eos_id = info_.eos_id.value_or(-1);
  footer.num_tokens = offsets_.back();
  footer.num_documents = text_bytes_.size();
  footer.num_sources = info_.source_names.size();
  footer.has_mask = info_.has_mask ? 1 : 0;
  footer.strings_bytes = strings.size();
  footer.file_bytes = file_.size_bytes() + sizeof(ShardFooter);
  sha256_hex(hashes_).copy(footer.hashes_sha256.data(), kShardHashBytes);
  footer_hash(footer).copy(footer.footer_sha256.data(), kShardHashBytes);
  assert(shard_layout(footer).footer == file_.size_bytes());
  file_.write(std::as_bytes(std::span(&footer, 1)));
  file_.finish();
  return {footer.footer_sha256.data(), kShardHashBytes};
}

}  // namespace ida::data

#include "data/build_shard.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "data/shard_writer.h"

namespace ida::data {
namespace {

// Documents encoded together: enough to keep every thread busy, little enough to stay small in memory.
constexpr std::size_t kBatchDocuments = 1024;
constexpr std::uint64_t kBatchBytes = std::uint64_t{16} << 20;

struct EncodedDocument {
  DocumentStatus status = DocumentStatus::kText;
  std::vector<std::int32_t> ids;
  std::uint64_t text_bytes = 0;
  std::exception_ptr error;
};

std::vector<std::int32_t> with_ends(std::vector<std::int32_t> ids, const TokenEncoder& encoder) {
  const std::optional<std::int32_t> bos = encoder.bos_id();
  const std::optional<std::int32_t> eos = encoder.eos_id();
  if (bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  if (eos && (ids.empty() || ids.back() != *eos)) ids.push_back(*eos);
  return ids;
}

EncodedDocument encode_document(const RawDocument& raw, const TokenEncoder& encoder) {
  EncodedDocument encoded;
  try {
    const DocumentText text(raw);
    encoded.status = text.status();
    if (text.status() != DocumentStatus::kText) return encoded;
    std::vector<std::int32_t> ids = encoder.encode(text.text());
    if (ids.empty()) {  // a normaliser can leave nothing of a text
      encoded.status = DocumentStatus::kEmpty;
      return encoded;
    }
    encoded.text_bytes = text.text().size();
    encoded.ids = with_ends(std::move(ids), encoder);
  } catch (...) {
    encoded.error = std::current_exception();
  }
  return encoded;
}

// The next documents in order, up to the batch limits.
std::vector<RawDocument> next_batch(DocumentReader& reader) {
  std::vector<RawDocument> batch;
  std::uint64_t bytes = 0;
  RawDocument document;
  while (batch.size() < kBatchDocuments && bytes < kBatchBytes && reader.next(document)) {
    bytes += document.size_bytes();
    batch.push_back(document);
  }
  return batch;
}

void write_document(const RawDocument& raw, const EncodedDocument& encoded, ShardWriter& writer, BuildReport& report) {
  if (encoded.error) std::rethrow_exception(encoded.error);
  if (encoded.status == DocumentStatus::kEmpty) {
    ++report.num_empty;
    return;
  }
  if (encoded.status == DocumentStatus::kBinary) {
    ++report.num_binary;
    return;
  }
  writer.add_document({.tokens = encoded.ids, .trained = {}, .source = raw.source, .text_bytes = encoded.text_bytes});
  ++report.num_documents;
  report.num_tokens += static_cast<std::int64_t>(encoded.ids.size());
  report.text_bytes += static_cast<std::int64_t>(encoded.text_bytes);
}

ShardInfo shard_info(const std::vector<Source>& sources, const TokenEncoder& encoder, std::string build_key) {
  ShardInfo info;
  info.vocab_size = encoder.vocab_size();
  info.bos_id = encoder.bos_id();
  info.eos_id = encoder.eos_id();
  info.tokenizer_hash = encoder.content_hash();
  info.build_key = std::move(build_key);
  for (const Source& source : sources) info.source_names.push_back(source.name);
  return info;
}

BuildReport build_with_key(const std::vector<Source>& sources, const TokenEncoder& encoder, const std::string& path,
                           const std::string& build_key, const BuildProgress& progress) {
  make_directories(parent_path(path));
  ShardWriter writer(path, shard_info(sources, encoder, build_key));
  BuildReport report;
  for (const Source& source : sources) report.num_left_out += source.num_left_out;
  DocumentReader reader(sources);
  for (std::vector<RawDocument> batch = next_batch(reader); !batch.empty(); batch = next_batch(reader)) {
    std::vector<EncodedDocument> encoded(batch.size());
    parallel_for(static_cast<std::int64_t>(batch.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        encoded[i] = encode_document(batch[i], encoder);
      }
    });
    for (std::size_t i = 0; i < batch.size(); ++i) write_document(batch[i], encoded[i], writer, report);
    if (progress) progress(report);
  }
  if (report.num_documents == 0) {
    fail_usage("[data] {}: no document with text ({} empty, {} binary)", sources.front().path, report.num_empty,
               report.num_binary);
  }
  writer.finish();
  return report;
}

// Tokens by [entry][source of the dataset], whose first shard holds all text entries and whose others are the shard
// entries in order.
std::vector<std::vector<std::int64_t>> count_entry_tokens(const std::vector<Source>& entries, const TokenDataset& dataset) {
  std::vector<std::size_t> text_entries;
  std::vector<std::size_t> shard_entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    (entries[i].kind == SourceKind::kShard ? shard_entries : text_entries).push_back(i);
  }
  const std::int64_t num_text_shards = text_entries.empty() ? 0 : 1;
  std::vector<std::vector<std::int64_t>> tokens(entries.size(),
                                                std::vector<std::int64_t>(dataset.source_names().size(), 0));
  std::int64_t first = 0;
  for (std::int64_t s = 0; s < dataset.num_shards(); ++s) {
    const TokenShard& shard = dataset.shard(s);
    for (std::int64_t d = 0; d < shard.num_documents(); ++d) {
      const auto local = static_cast<std::size_t>(shard.document_source(d));
      const std::size_t entry =
          s < num_text_shards ? text_entries[local] : shard_entries[static_cast<std::size_t>(s - num_text_shards)];
      tokens[entry][static_cast<std::size_t>(dataset.document(first + d).source())] += shard.document_length(d);
    }
    first += shard.num_documents();
  }
  return tokens;
}

}  // namespace

std::string BuildReport::to_string() const {
  return fmt::format("{} documents, {} tokens, {} bytes of text; skipped {} empty, {} binary, {} hidden or special",
                     num_documents, num_tokens, text_bytes, num_empty, num_binary, num_left_out);
}

std::string build_key_of(const std::vector<Source>& sources, const TokenEncoder& encoder) {
  return sha256_hex(fmt::format("shard {} tokenizer {} bos {} eos {} sources {}", kShardVersion, encoder.content_hash(),
                                encoder.bos_id().value_or(-1), encoder.eos_id().value_or(-1), hash_sources(sources)));
}

BuildReport build_shard(const std::vector<Source>& sources, const TokenEncoder& encoder, const std::string& path,
                        const BuildProgress& progress) {
  return build_with_key(sources, encoder, path, build_key_of(sources, encoder), progress);
}

PreparedData prepare_dataset(const std::vector<std::string>& entries, const TokenEncoder& encoder, const std::string& path,
                             const BuildProgress& progress) {
  const std::vector<Source> sources = find_sources(entries);
  std::vector<Source> texts;
  std::copy_if(sources.begin(), sources.end(), std::back_inserter(texts),
               [](const Source& source) { return source.kind != SourceKind::kShard; });
  BuildReport report;
  bool built = false;
  std::vector<TokenShard> shards;
  if (!texts.empty()) {
    const std::string key = build_key_of(texts, encoder);
    built = !path_exists(path) || TokenShard(path).build_key() != key;
    if (built) report = build_with_key(texts, encoder, path, key, progress);
    shards.emplace_back(path);
  }
  for (const Source& source : sources) {
    if (source.kind == SourceKind::kShard) shards.emplace_back(source.path);
  }
  for (const TokenShard& shard : shards) {
    if (shard.tokenizer_hash() != encoder.content_hash()) {
      fail_usage("{}: built with tokenizer {:.12}, this run uses {:.12}; build the shard again", shard.path(),
                 shard.tokenizer_hash(), encoder.content_hash());
    }
  }
  PreparedData prepared{TokenDataset(std::move(shards)), report, built, {}};
  prepared.entry_tokens = count_entry_tokens(sources, prepared.dataset);
  return prepared;
}

std::vector<double> PreparedData::source_weights(const std::vector<double>& entry_weights) const {
  if (entry_weights.empty()) return {};
  if (entry_weights.size() != entry_tokens.size()) {
    fail_usage("[data] weights: {} values for {} entries of train; expected one each", entry_weights.size(),
               entry_tokens.size());
  }
  std::vector<double> weights(dataset.source_names().size(), 0.0);
  for (std::size_t entry = 0; entry < entry_tokens.size(); ++entry) {
    const std::vector<std::int64_t>& tokens = entry_tokens[entry];
    const auto all = static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}));
    for (std::size_t s = 0; s < weights.size(); ++s) {
      if (tokens[s] > 0) weights[s] += entry_weights[entry] * static_cast<double>(tokens[s]) / all;
    }
  }
  return weights;
}

}  // namespace ida::data

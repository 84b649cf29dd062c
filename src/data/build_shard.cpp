#include "data/build_shard.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "data/build_state.h"
#include "data/shard_writer.h"

namespace ida::data {
namespace {

// Documents encoded together: enough to keep every thread busy, little enough to stay small in memory.
constexpr std::size_t kBatchDocuments = 1024;
constexpr std::uint64_t kBatchBytes = std::uint64_t{16} << 20;

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

std::vector<EncodedDocument> encode_batch(const std::vector<RawDocument>& batch, const TokenEncoder& encoder,
                                          LossMask mask) {
  const PlainChatTemplate chat;
  std::vector<EncodedDocument> encoded(batch.size());
  parallel_for(static_cast<std::int64_t>(batch.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      encoded[i] = encode_document(batch[i], encoder, mask, chat);
  });
  return encoded;
}

std::int64_t total_bytes_of(const std::vector<Source>& sources) {
  std::uint64_t bytes = 0;
  for (const Source& source : sources) {
    if (source.kind == SourceKind::kGit) return 0;
    for (const SourceFile& file : source.files) bytes += file_size_bytes(file.path);
  }
  return static_cast<std::int64_t>(bytes);
}

ShardInfo shard_info(const std::vector<Source>& sources, const TokenEncoder& encoder, const std::string& build_key) {
  ShardInfo info;
  info.vocab_size = encoder.vocab_size();
  info.bos_id = encoder.bos_id();
  info.eos_id = encoder.eos_id();
  info.tokenizer_hash = encoder.content_hash();
  info.build_key = build_key;
  for (const Source& source : sources) info.source_names.push_back(source.name);
  return info;
}

// Takes documents in order and writes part after part.
class PartsWriter {
 public:
  PartsWriter(BuildFolder& folder, ShardInfo info, std::int64_t part_tokens)
      : folder_(folder), info_(std::move(info)), part_tokens_(part_tokens) {}

  void add(const RawDocument& raw, const EncodedDocument& encoded) {
    if (encoded.error) std::rethrow_exception(encoded.error);
    BuildReport& report = folder_.state().report;
    report.read_bytes += static_cast<std::int64_t>(raw.size_bytes());
    folder_.state().next = raw.next;
    switch (encoded.status) {
      case DocumentStatus::kEmpty: ++report.num_empty; return;
      case DocumentStatus::kBinary: ++report.num_binary; return;
      case DocumentStatus::kUntrained: ++report.num_untrained; return;
      case DocumentStatus::kText: break;
    }
    if (!writer_) writer_.emplace(folder_.next_part(), info_);
    writer_->add_document(
        {.tokens = encoded.ids, .trained = encoded.trained, .source = raw.source, .text_bytes = encoded.text_bytes});
    ++report.num_documents;
    report.num_tokens += static_cast<std::int64_t>(encoded.ids.size());
    report.text_bytes += static_cast<std::int64_t>(encoded.text_bytes);
    if (writer_->num_tokens() >= part_tokens_) finish_part();
  }
  void finish_part() {
    if (!writer_) return;
    const ShardPart part{
        .fingerprint = writer_->finish(), .num_documents = writer_->num_documents(), .num_tokens = writer_->num_tokens()};
    writer_.reset();
    folder_.add_finished_part(part);
  }

 private:
  BuildFolder& folder_;
  ShardInfo info_;
  std::int64_t part_tokens_;
  std::optional<ShardWriter> writer_;
};

}  // namespace

std::string BuildReport::to_string() const {
  std::string text = fmt::format(
      "{} documents, {} tokens, {} bytes of text; skipped {} empty, {} binary, {} without a target, {} hidden, special or "
      "of "
      "other endings",
      num_documents, num_tokens, text_bytes, num_empty, num_binary, num_untrained, num_left_out);
  if (num_parts > 1) text += fmt::format("; {} parts", num_parts);
  if (num_reused > 0) text += fmt::format("; {} of them taken over from an earlier call", num_reused);
  return text;
}

std::string build_key_of(const std::vector<Source>& sources, const std::vector<FileHash>& files,
                         const TokenEncoder& encoder, const BuildOptions& options) {
  return sha256_hex(fmt::format("shard {} tokenizer {} bos {} eos {} mask {} chat {} part_tokens {} sources {}",
                                kShardVersion, encoder.content_hash(), encoder.bos_id().value_or(-1),
                                encoder.eos_id().value_or(-1), static_cast<int>(options.mask), PlainChatTemplate().id(),
                                options.part_tokens, hash_sources(sources, files)));
}

BuildReport build_shard(const std::vector<Source>& sources, const TokenEncoder& encoder, const std::string& path,
                        const std::string& key, const BuildOptions& options) {
  make_directories(parent_path(path));
  BuildFolder folder(path, key);
  BuildState& state = folder.state();
  for (const Source& source : sources) state.report.num_left_out += source.num_left_out;
  state.report.total_bytes = total_bytes_of(sources);
  if (options.progress) options.progress(state.report);

  DocumentReader reader(sources, state.next, encoder.eos_id());
  PartsWriter writer(folder, shard_info(sources, encoder, key), options.part_tokens);
  for (std::vector<RawDocument> batch = next_batch(reader); !batch.empty(); batch = next_batch(reader)) {
    const std::vector<EncodedDocument> encoded = encode_batch(batch, encoder, options.mask);
    for (std::size_t i = 0; i < batch.size(); ++i) writer.add(batch[i], encoded[i]);
    if (options.progress) options.progress(state.report);
  }
  writer.finish_part();
  if (state.report.num_documents == 0) {
    fail_usage("[data] {}: no document to train on ({} empty, {} binary, {} without a target)", sources.front().path,
               state.report.num_empty, state.report.num_binary, state.report.num_untrained);
  }
  folder.publish();
  return state.report;
}

}  // namespace ida::data

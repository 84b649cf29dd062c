#include "data/inspect.h"

#include <fmt/core.h>

#include <algorithm>

namespace ida::data {
namespace {

// Length of the well-formed UTF-8 sequence (RFC 3629) at the start of `text`; 0: there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool outside = (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : size;
}

// Decodes runs of equal marks together, so that a character spread over several tokens is shown whole.
template <typename IsTrained>
std::string marked_text(std::span<const std::int32_t> ids, const IsTrained& is_trained, const DecodeFn& decode) {
  std::string out;
  for (std::size_t begin = 0; begin < ids.size();) {
    std::size_t end = begin + 1;
    while (end < ids.size() && is_trained(end) == is_trained(begin)) ++end;
    const std::string text = escape_text(decode(ids.subspan(begin, end - begin)));
    out += is_trained(begin) ? text : "[[" + text + "]]";
    begin = end;
  }
  return out;
}

std::int64_t masked_tokens_of(const DocumentView& document) {
  std::int64_t masked = 0;
  for (std::int64_t at = 0; document.has_mask() && at < document.length(); ++at) masked += document.trained(at) ? 0 : 1;
  return masked;
}

std::string id_list(std::span<const std::int32_t> ids) {
  std::string out = "    ids:";
  for (const std::int32_t id : ids) out += fmt::format(" {}", id);
  return out + "\n";
}

std::string shown_note(std::int64_t shown, std::int64_t all) {
  return shown < all ? fmt::format(" ... {} more tokens", all - shown) : "";
}

std::string source_name(const TokenDataset& dataset, std::int64_t source) {
  return dataset.source_names()[static_cast<std::size_t>(source)];
}

std::string render_segment(const Batch& batch, const DocumentSpan& span, const TokenDataset& dataset,
                           const DecodeFn& decode, const InspectOptions& options) {
  const auto begin = static_cast<std::size_t>(span.begin);
  const std::int64_t shown = std::min(span.length, options.max_tokens_per_segment);
  const std::span<const std::int32_t> ids(batch.tokens.data() + begin, static_cast<std::size_t>(shown));
  const auto labels = batch.labels.begin() + span.begin;
  const auto targets =
      std::count_if(labels, labels + span.length, [](std::int32_t label) { return label != kIgnoreLabel; });
  const auto is_target = [&](std::size_t i) { return i > 0 && labels[static_cast<std::ptrdiff_t>(i) - 1] != kIgnoreLabel; };
  std::string out = fmt::format("  segment [{}, {}) source {}: {} tokens, {} targets\n", span.begin % batch.seq_len,
                                span.begin % batch.seq_len + span.length,
                                source_name(dataset, batch.source_of_token[begin]), span.length, targets);
  if (options.ids) out += id_list(ids);
  out += "    " + marked_text(ids, is_target, decode) + shown_note(shown, span.length);
  const std::int32_t last = labels[span.length - 1];
  if (last != kIgnoreLabel) out += " -> " + escape_text(decode(std::span(&last, 1)));
  return out + "\n";
}

}  // namespace

std::string escape_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (text[0] == '\n') {
      out += "\\n";
    } else if (text[0] == '\t') {
      out += "\\t";
    } else if (text[0] == '\\') {
      out += "\\\\";
    } else if (size == 0 || first < 0x20 || first == 0x7F) {
      out += fmt::format("\\x{:02x}", first);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

std::int64_t count_masked_tokens(const TokenDataset& dataset) {
  std::int64_t masked = 0;
  for (std::int64_t i = 0; i < dataset.num_documents(); ++i) masked += masked_tokens_of(dataset.document(i));
  return masked;
}

std::string describe_dataset(const TokenDataset& dataset) {
  std::string out = fmt::format("{} shards, {} documents, {} tokens, vocabulary {}, tokenizer {:.12}, fingerprint {:.12}\n",
                                dataset.num_shards(), dataset.num_documents(), dataset.num_tokens(), dataset.vocab_size(),
                                dataset.tokenizer_hash(), dataset.fingerprint());
  struct Count {
    std::int64_t documents = 0, tokens = 0, bytes = 0, masked = 0;
  };
  std::vector<Count> counts(dataset.source_names().size());
  for (std::int64_t i = 0; i < dataset.num_documents(); ++i) {
    const DocumentView document = dataset.document(i);
    Count& count = counts[static_cast<std::size_t>(document.source())];
    ++count.documents;
    count.tokens += document.length();
    count.bytes += document.text_bytes();
    count.masked += masked_tokens_of(document);
  }
  for (std::size_t s = 0; s < counts.size(); ++s) {
    const Count& count = counts[s];
    out += fmt::format(
        "  source {}: {} documents, {} tokens ({} trained, {} masked), {} bytes of text, {:.2f} bytes/token\n",
        dataset.source_names()[s], count.documents, count.tokens, count.tokens - count.masked, count.masked, count.bytes,
        count.tokens == 0 ? 0.0 : static_cast<double>(count.bytes) / static_cast<double>(count.tokens));
  }
  return out;
}

std::string describe_stream(BatchStream& stream) {
  const PieceTable& pieces = stream.pieces();
  return fmt::format(
      "{} rows of {} tokens an epoch, {:.2f}% filled; {} pieces, {} documents longer than a row; left out: {} empty "
      "documents, "
      "{} pieces and {} rows without a target\n",
      stream.rows_per_epoch(), stream.options().seq_len, 100.0 * stream.fill_rate(), pieces.pieces.size(), pieces.num_long,
      pieces.num_empty, pieces.num_untrained, stream.num_dropped_rows());
}

std::string render_document(const TokenDataset& dataset, std::int64_t document_idx, const DecodeFn& decode,
                            const InspectOptions& options) {
  const DocumentView document = dataset.document(document_idx);
  const std::int64_t shown = std::min(document.length(), options.max_tokens_per_segment);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shown));
  document.copy_tokens(0, shown, ids.data());
  const auto is_trained = [&](std::size_t i) { return document.trained(static_cast<std::int64_t>(i)); };
  std::string out = fmt::format("document {} source {}: {} tokens, {} bytes of text\n", document_idx,
                                source_name(dataset, document.source()), document.length(), document.text_bytes());
  if (options.ids) out += id_list(ids);
  return out + "    " + marked_text(ids, is_trained, decode) + shown_note(shown, document.length()) + "\n";
}

std::string render_batch(const Batch& batch, const TokenDataset& dataset, const DecodeFn& decode,
                         const InspectOptions& options) {
  const std::int64_t used = std::count_if(batch.source_of_token.begin(), batch.source_of_token.end(),
                                          [](std::uint16_t source) { return source != kNoSource; });
  std::string out = fmt::format(
      "{} rows of {} tokens: {} segments, {} targets, {:.2f}% filled\n", batch.rows, batch.seq_len, batch.documents.size(),
      batch.num_targets,
      batch.tokens.empty() ? 0.0 : 100.0 * static_cast<double>(used) / static_cast<double>(batch.tokens.size()));
  std::size_t next = 0;
  for (std::int64_t row = 0; row < std::min(batch.rows, options.max_rows); ++row) {
    const std::int64_t end = (row + 1) * batch.seq_len;
    std::int64_t tail = batch.seq_len;
    out += fmt::format("row {}: {} targets\n", row, batch.row_targets[static_cast<std::size_t>(row)]);
    for (; next < batch.documents.size() && batch.documents[next].begin < end; ++next) {
      out += render_segment(batch, batch.documents[next], dataset, decode, options);
      tail -= batch.documents[next].length;
    }
    if (tail > 0) out += fmt::format("  unused: {} positions\n", tail);
  }
  if (batch.rows > options.max_rows) out += fmt::format("... {} more rows\n", batch.rows - options.max_rows);
  return out;
}

}  // namespace ida::data

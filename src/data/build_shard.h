// Text sources -> a token shard, or several parts with an index (data/shard_index.h) when there is much text. Documents
// keep the order of the sources whatever the number of threads.
//
// A build may be killed at any moment. While it runs it keeps its parts and, once each is durable, a note of how far it
// came in NAME.parts-KEY beside NAME.shard, where KEY follows from everything the result depends on. The same build
// called again takes the finished parts over after checking them and goes on; the result has the same bytes. Memory: one
// part's document table (18 bytes a document) and the documents being encoded.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/encode_document.h"
#include "data/source.h"
#include "data/token_encoder.h"

namespace ida::data {

struct BuildReport {
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  std::int64_t text_bytes = 0;
  std::int64_t num_empty = 0;      // documents without text, skipped
  std::int64_t num_binary = 0;     // files with a NUL byte, skipped
  std::int64_t num_untrained = 0;  // documents of which the mask leaves no target, skipped
  std::int64_t num_left_out = 0;   // of folders: hidden names, links, special files, other endings
  std::int64_t read_bytes = 0;     // of sources, skipped ones included
  std::int64_t total_bytes = 0;    // of all sources; 0: not known beforehand (git)
  std::int64_t num_parts = 0;      // finished
  std::int64_t num_reused = 0;     // parts taken over from an interrupted build
  std::string to_string() const;   // one line
};

// Called from the building thread after each batch of documents; what it throws ends the build, which can go on later.
using BuildProgress = std::function<void(const BuildReport& so_far)>;

struct BuildOptions {
  LossMask mask = LossMask::kAll;
  std::int64_t part_tokens = std::int64_t{1} << 26;  // a part ends with the document that reaches this
  BuildProgress progress = {};                       // may be empty
};

// Writes NAME.shard at `path` (replaced only when complete; missing folders are made). `key` is build_key_of the same
// arguments. Errors: kUsage when the sources hold no document to train on; those of find_sources, parse_record and
// encode_document; kRuntime for I/O.
BuildReport build_shard(const std::vector<Source>& sources, const TokenEncoder& encoder, const std::string& path,
                        const std::string& key, const BuildOptions& options = {});

// SHA-256 of everything a shard depends on: format version, tokenizer, mask, size of parts, content of the sources.
std::string build_key_of(const std::vector<Source>& sources, const std::vector<FileHash>& files,
                         const TokenEncoder& encoder, const BuildOptions& options);

}  // namespace ida::data

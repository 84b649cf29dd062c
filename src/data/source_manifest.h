// What a shard was built from: path, size and SHA-256 of every file, as JSON beside the shard.
#pragma once
#include <string>
#include <vector>

#include "data/source.h"

namespace ida::data {

// "a/NAME.shard" -> "a/NAME.manifest.json"
std::string manifest_path(const std::string& shard_path);

// `files` is hash_files(sources); `build_key` that of the shard.
void write_source_manifest(const std::string& path, const std::vector<Source>& sources, const std::vector<FileHash>& files,
                           const std::string& build_key);

struct ManifestCheck {
  std::string build_key;
  std::int64_t num_files = 0;         // that the manifest lists
  std::vector<std::string> problems;  // one line per file that changed, is missing or is new; empty: all as it was
};

// Compares the sources as they are now with a manifest. Paths are those given to the build: relative ones are read from
// the working directory. Errors (kCorrupt): not a manifest.
ManifestCheck check_source_manifest(const std::string& path);

}  // namespace ida::data

// manifest.json of a native checkpoint: what the folder holds, where it came from, and a hash of everything, itself
// included. The text is canonical: any changed byte is found, even one that JSON would not notice.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/safetensors.h"

namespace ida::checkpoint {

constexpr int kCheckpointFormatVersion = 1;

struct ManifestFile {
  std::uint64_t size_bytes = 0;
  std::string sha256;
  // Checksum of each tensor of a safetensors file. They say which tensor is damaged; the SHA-256 says whether.
  std::map<std::string, std::string> tensors = {};
};

// Where a checkpoint came from. All fields are the caller's; empty means not known.
struct Lineage {
  std::string run_id;
  std::string parent;  // id of the checkpoint that this one continues
  std::string config_hash;
  std::string data_fingerprint;
  std::string build_id;
  bool operator==(const Lineage&) const = default;
};

struct Manifest {
  std::int64_t step = 0;  // updates done
  Lineage lineage;
  std::map<std::string, ManifestFile> files;
  std::map<std::string, double> scores;  // evaluation results, added later

  // SHA-256 over everything but the scores: names this checkpoint for good.
  std::string id() const;
};

std::string write_manifest(const Manifest& manifest);
// kCorrupt naming `origin` unless the text is exactly what write_manifest makes. A newer format version is kUsage.
Manifest parse_manifest(std::string_view text, std::string_view origin);

// 16 hexadecimal digits; any change of one 8-byte word changes it.
std::string tensor_checksum(std::span<const std::byte> bytes);

}  // namespace ida::checkpoint

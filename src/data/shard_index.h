// What a name NAME.shard leads to: one token shard, or an index of the parts of a large one.
//
// The index is JSON; its parts are token shards in a folder beside it, FOLDER/00000.shard and so on. The folder's name
// comes from the index, so both move together and the index may be renamed.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/token_shard.h"

namespace ida::data {

struct ShardPart {
  std::string fingerprint;  // TokenShard::fingerprint
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  bool operator==(const ShardPart&) const = default;
};

struct ShardIndex {
  std::string build_key;
  std::string folder;  // a bare name
  std::vector<ShardPart> parts;
};

std::string part_path(const std::string& folder, std::size_t part);
ShardPart part_of(const TokenShard& shard);
nlohmann::json parts_to_json(const std::vector<ShardPart>& parts);
// Errors (kCorrupt): anything else than parts_to_json writes.
std::vector<ShardPart> parts_from_json(const nlohmann::json& json, const std::string& origin);

void write_shard_index(const std::string& path, const ShardIndex& index);
// Files that NAME.shard leads to, itself first.
std::vector<std::string> shard_files(const std::string& path);

// The shards behind a name, in order, each checked as TokenShard does and against the index. Errors (kCorrupt): a part
// is missing or is not the one the index names; a damaged index.
std::vector<TokenShard> open_shards(const std::string& path);

}  // namespace ida::data

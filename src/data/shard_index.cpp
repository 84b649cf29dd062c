#include "data/shard_index.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace ida::data {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "ida-train shard index 1";

bool is_index(const std::string& path) {
  const MappedFile file(path);
  return !file.bytes().empty() && file.bytes()[0] == std::byte{'{'};
}

ShardIndex read_shard_index(const std::string& path) {
  const json text = parse_json(read_file(path), path);
  ShardIndex index;
  try {
    if (text.at("format") != kFormat)
      fail_corrupt("{}: format {}, this program reads \"{}\"", path, json_excerpt(text.at("format")), kFormat);
    index.build_key = text.at("build_key").get<std::string>();
    index.folder = text.at("folder").get<std::string>();
    index.parts = parts_from_json(text.at("parts"), path);
  } catch (const json::exception& error) {
    fail_corrupt("{}: not an index of shards: {}; build it again", path, json_error_text(error.what()));
  }
  if (index.folder.empty() || index.folder.front() == '.' || index.folder.find('/') != std::string::npos)
    fail_corrupt("{}: folder \"{}\", expected the bare name of a folder beside it", path, printable_excerpt(index.folder));
  if (index.parts.empty()) fail_corrupt("{}: an index without parts; build it again", path);
  return index;
}

}  // namespace

std::string part_path(const std::string& folder, std::size_t part) { return fmt::format("{}/{:05}.shard", folder, part); }

ShardPart part_of(const TokenShard& shard) {
  return {.fingerprint = shard.fingerprint(), .num_documents = shard.num_documents(), .num_tokens = shard.num_tokens()};
}

json parts_to_json(const std::vector<ShardPart>& parts) {
  json list = json::array();
  for (const ShardPart& part : parts)
    list.push_back({{"fingerprint", part.fingerprint}, {"documents", part.num_documents}, {"tokens", part.num_tokens}});
  return list;
}

std::vector<ShardPart> parts_from_json(const json& list, const std::string& origin) {
  std::vector<ShardPart> parts;
  try {
    for (const json& part : list)
      parts.push_back({.fingerprint = part.at("fingerprint").get<std::string>(),
                       .num_documents = part.at("documents").get<std::int64_t>(),
                       .num_tokens = part.at("tokens").get<std::int64_t>()});
  } catch (const json::exception& error) {
    fail_corrupt("{}: not a list of parts: {}", origin, json_error_text(error.what()));
  }
  return parts;
}

void write_shard_index(const std::string& path, const ShardIndex& index) {
  const json text = {
      {"format", kFormat}, {"build_key", index.build_key}, {"folder", index.folder}, {"parts", parts_to_json(index.parts)}};
  write_file_atomic(path, text.dump(1) + "\n");
}

std::vector<std::string> shard_files(const std::string& path) {
  std::vector<std::string> files = {path};
  if (!is_index(path)) return files;
  const ShardIndex index = read_shard_index(path);
  for (std::size_t i = 0; i < index.parts.size(); ++i)
    files.push_back(part_path(parent_path(path) + "/" + index.folder, i));
  return files;
}

std::vector<TokenShard> open_shards(const std::string& path) {
  std::vector<TokenShard> shards;
  if (!is_index(path)) {
    shards.emplace_back(path);
    return shards;
  }
  const ShardIndex index = read_shard_index(path);
  for (std::size_t i = 0; i < index.parts.size(); ++i) {
    const std::string part = part_path(parent_path(path) + "/" + index.folder, i);
    if (!is_regular_file(part)) fail_corrupt("{}: part {} is missing: {}; build it again", path, i, part);
    shards.emplace_back(part);
    if (part_of(shards.back()) != index.parts[i] || shards.back().build_key() != index.build_key)
      fail_corrupt("{}: {} is another shard than part {} of this index; build it again", path, part, i);
  }
  return shards;
}

}  // namespace ida::data

#include "data/source_manifest.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace ida::data {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "ida-train sources 1";

// File names are bytes; those that are not UTF-8 are kept apart by their replacement text and their hash.
std::string dump(const json& value) { return value.dump(1, ' ', false, json::error_handler_t::replace); }

void compare_files(const json& listed, const Source& source, const std::string& source_path,
                   std::vector<std::string>& problems) {
  std::map<std::string, FileHash> now;
  const std::vector<FileHash> hashes = hash_files({source});
  for (std::size_t i = 0; i < hashes.size(); ++i) now.emplace(source.files[i].name, hashes[i]);
  for (const json& file : listed) {
    const auto name = file.at("path").get<std::string>();
    const auto found = now.find(name);
    if (found == now.end()) {
      problems.push_back(fmt::format("{}: {} is missing", source_path, name));
      continue;
    }
    const FileHash was{.size_bytes = file.at("bytes").get<std::uint64_t>(), .sha256 = file.at("sha256").get<std::string>()};
    if (found->second != was) {
      problems.push_back(fmt::format("{}: {} changed: {} bytes, sha256 {:.12}; the manifest says {} bytes, {:.12}",
                                     source_path, name, found->second.size_bytes, found->second.sha256, was.size_bytes,
                                     was.sha256));
    }
    now.erase(found);
  }
  for (const auto& [name, hash] : now) problems.push_back(fmt::format("{}: {} is new", source_path, name));
}

void compare_source(const json& listed, std::vector<std::string>& problems) {
  const auto path = listed.at("path").get<std::string>();
  const bool git = listed.contains("commits");
  std::vector<Source> sources;
  try {
    sources = find_requested_sources(
        {{.path = path, .extensions = listed.at("extensions").get<std::vector<std::string>>(), .git = git}});
  } catch (const Error& error) {
    problems.push_back(error.what());
    return;
  }
  if (!git) return compare_files(listed.at("files"), sources.front(), path, problems);
  const auto was = listed.at("commits").get<std::vector<std::string>>();
  if (sources.front().commits != was)
    problems.push_back(fmt::format("{}: {} commits, last {:.12}; the manifest says {}, last {:.12}", path,
                                   sources.front().commits.size(), sources.front().commits.back(), was.size(),
                                   was.empty() ? "" : was.back()));
}

}  // namespace

std::string manifest_path(const std::string& shard_path) {
  return shard_path.substr(0, shard_path.size() - std::string_view(".shard").size()) + ".manifest.json";
}

void write_source_manifest(const std::string& path, const std::vector<Source>& sources, const std::vector<FileHash>& files,
                           const std::string& build_key) {
  json list = json::array();
  std::size_t at = 0;
  for (const Source& source : sources) {
    json entry = {{"name", source.name}, {"path", source.path}, {"extensions", source.extensions}};
    if (source.kind == SourceKind::kGit) {
      entry["commits"] = source.commits;
      list.push_back(std::move(entry));
      continue;
    }
    json& rows = entry["files"] = json::array();
    for (const SourceFile& file : source.files) {
      rows.push_back({{"path", file.name}, {"bytes", files[at].size_bytes}, {"sha256", files[at].sha256}});
      ++at;
    }
    list.push_back(std::move(entry));
  }
  write_file_atomic(path, dump({{"format", kFormat}, {"build_key", build_key}, {"sources", list}}) + "\n");
}

ManifestCheck check_source_manifest(const std::string& path) {
  const json manifest = parse_json(read_file(path), path);
  ManifestCheck check;
  try {
    if (manifest.at("format") != kFormat)
      fail_corrupt("{}: format {}, this program reads \"{}\"", path, json_excerpt(manifest.at("format")), kFormat);
    check.build_key = manifest.at("build_key").get<std::string>();
    for (const json& source : manifest.at("sources")) {
      if (source.contains("files")) check.num_files += static_cast<std::int64_t>(source.at("files").size());
      compare_source(source, check.problems);
    }
  } catch (const json::exception& error) {
    fail_corrupt("{}: not a manifest of sources: {}", path, json_error_text(error.what()));
  }
  return check;
}

}  // namespace ida::data

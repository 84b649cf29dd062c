#include "checkpoint/manifest.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "checkpoint/hf_model.h"

namespace ida::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "ida-train checkpoint";

Json core_json(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, file] : manifest.files) {
    files[name] = {{"sha256", file.sha256}, {"size_bytes", file.size_bytes}};
    if (!file.tensors.empty()) files[name]["tensors"] = file.tensors;
  }
  return {{"format", kFormat},
          {"format_version", kCheckpointFormatVersion},
          {"step", manifest.step},
          {"run_id", manifest.lineage.run_id},
          {"parent", manifest.lineage.parent},
          {"config_hash", manifest.lineage.config_hash},
          {"data_fingerprint", manifest.lineage.data_fingerprint},
          {"build_id", manifest.lineage.build_id},
          {"files", files}};
}

Manifest from_json(const Json& json) {
  Manifest manifest;
  manifest.step = json.at("step").get<std::int64_t>();
  manifest.lineage = {.run_id = json.at("run_id").get<std::string>(),
                      .parent = json.at("parent").get<std::string>(),
                      .config_hash = json.at("config_hash").get<std::string>(),
                      .data_fingerprint = json.at("data_fingerprint").get<std::string>(),
                      .build_id = json.at("build_id").get<std::string>()};
  for (const auto& [name, file] : json.at("files").items()) {
    ManifestFile& entry = manifest.files[name];
    entry.sha256 = file.at("sha256").get<std::string>();
    entry.size_bytes = file.at("size_bytes").get<std::uint64_t>();
    if (file.contains("tensors")) entry.tensors = file["tensors"].get<std::map<std::string, std::string>>();
  }
  manifest.scores = json.at("scores").get<std::map<std::string, double>>();
  return manifest;
}

}  // namespace

std::string Manifest::id() const { return sha256_hex(core_json(*this).dump()); }

std::string write_manifest(const Manifest& manifest) {
  Json json = core_json(manifest);
  json["id"] = manifest.id();
  json["scores"] = manifest.scores;
  json["self_sha256"] = sha256_hex(json.dump());
  return json.dump(2) + "\n";
}

Manifest parse_manifest(std::string_view text, std::string_view origin) {
  const Json json = parse_json(text, origin);
  if (!json.is_object() || json.value("format", Json()) != Json(kFormat)) {
    fail_corrupt("{}: not a manifest of an ida-train checkpoint", origin);
  }
  const Json version = json.value("format_version", Json());
  if (version.is_number_integer() && version > kCheckpointFormatVersion) {
    fail_usage("{}: format version {} is newer than {}, the newest this program knows", origin, json_excerpt(version),
               kCheckpointFormatVersion);
  }
  Manifest manifest;
  try {
    manifest = from_json(json);
  } catch (const Json::exception& error) {
    fail_corrupt("{}: {}", origin, json_error_text(error.what()));
  }
  if (write_manifest(manifest) != text) fail_corrupt("{}: its own hash does not match; the manifest was changed", origin);
  for (const auto& [name, file] : manifest.files) {
    if (!is_plain_file_name(name)) fail_corrupt("{}: '{}' is not a plain file name", origin, printable_excerpt(name));
  }
  return manifest;
}

std::string tensor_checksum(std::span<const std::byte> bytes) {
  // Four independent lanes of xor-multiply over 8-byte words; each step is invertible, so one changed word always shows.
  constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15;
  std::array<std::uint64_t, 4> lanes = {1, 2, 3, 4};
  std::size_t word = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 8, ++word) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    lanes[word % 4] = (lanes[word % 4] ^ value) * kPrime;
  }
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t lane : lanes) sum = (sum ^ lane ^ lane >> 32) * kPrime;
  return fmt::format("{:016x}", sum);
}

}  // namespace ida::checkpoint

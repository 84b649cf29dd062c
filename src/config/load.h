// Reading, checking, printing and hashing a run's configuration.
//
// Order of refusals: syntax, unknown keys, wrong types and bad values (the first in the file, then in `--set`), then
// contradictions, then what is missing (all of these kUsage), then values that exist but are not implemented (kGate).
// Messages are one line and start with `file:line:` or `--set a.b=value:`.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/run_config.h"

namespace ida::config {

inline constexpr std::int64_t kMaxConfigBytes = 1 << 20;

// The run described by a TOML file and `--set` texts ("a.b=value"; later ones win; value is TOML, or plain text for a
// string). Relative paths inside stay as written: they are relative to the working directory.
RunConfig load_run_config(const std::filesystem::path& toml_file, std::span<const std::string> overrides = {});

// The same from text; `origin` names it in messages.
RunConfig parse_run_config(std::string_view toml_text, std::string_view origin,
                           std::span<const std::string> overrides = {});

// Values and derived values without contradictions, missing settings or unimplemented values being refused; for tools
// that look at a partial configuration.
RunConfig read_run_config(std::string_view toml_text, std::string_view origin, std::span<const std::string> overrides = {});

// Contradictions, then missing settings; kUsage.
void check_complete(const RunConfig& config, std::string_view origin);
// Values this build cannot run; kGate.
void check_implemented(const RunConfig& config);

// Number of updates: train.steps, or train.tokens / train.global_batch_tokens rounded up.
std::int64_t total_steps(const RunConfig& config);
// device.memory_limit in bytes; nothing where it is empty.
std::optional<std::int64_t> memory_limit_bytes(const RunConfig& config);

// TOML with every key and its source as a trailing comment; reads back to an equal RunConfig. Unset keys are comments.
std::string dump_resolved(const RunConfig& config);

// SHA-256 over "path = value" lines, sorted, of every setting whose effect is Effect::kResults.
std::string config_hash(const RunConfig& config);

// Every setting with type, default, unit and help; one line each.
std::string settings_help();

}  // namespace ida::config

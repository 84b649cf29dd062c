// Sizes as people write them.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace ida::config {

// "16GiB", "1.5 GiB", "512MiB", "800MB", "4096" (bytes): a decimal number and B, KiB, MiB, GiB, TiB (powers of 1024) or
// kB, KB, MB, GB, TB (powers of 1000), rounded down to whole bytes. Nothing where the text is anything else, the size is
// below 1 byte or above 2^62.
std::optional<std::int64_t> try_parse_size_bytes(std::string_view text);

// The same; ida::Error kUsage naming the accepted forms.
std::int64_t parse_size_bytes(std::string_view text);

}  // namespace ida::config

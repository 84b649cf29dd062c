// CRC-32C (Castagnoli, RFC 3720 appendix B.4): reflected polynomial 0x82F63B78, initial value and final xor all ones.
#pragma once
#include <cstdint>
#include <string_view>

namespace ida::metrics {

std::uint32_t crc32c(std::string_view bytes);

// The form TFRecord files store: rotated right by 15 bits, plus 0xa282ead8. A checksum of data that itself holds
// checksums would otherwise be weak.
inline std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace ida::metrics

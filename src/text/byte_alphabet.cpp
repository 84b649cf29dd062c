#include "text/byte_alphabet.h"

#include <array>

#include "text/unicode.h"

namespace ida::text {
namespace {

constexpr char32_t kFirstSubstitute = 256;
constexpr int kNumSubstitutes = 68;

struct Tables {
  std::array<char32_t, 256> to_char{};
  std::array<int, kFirstSubstitute + kNumSubstitutes> to_byte{};
};

constexpr Tables make_tables() {
  Tables tables;
  for (int& byte : tables.to_byte) byte = -1;
  char32_t next = kFirstSubstitute;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const char32_t code = printable ? static_cast<char32_t>(byte) : next++;
    tables.to_char[static_cast<std::size_t>(byte)] = code;
    tables.to_byte[code] = byte;
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

char32_t byte_to_char(unsigned char byte) { return kTables.to_char[byte]; }

int char_to_byte(char32_t code) { return code < kTables.to_byte.size() ? kTables.to_byte[code] : -1; }

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(out, byte_to_char(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> alphabet_to_bytes(std::string_view token) {
  std::string out;
  out.reserve(token.size());
  for (std::size_t i = 0; i < token.size();) {
    const Utf8Char c = decode_utf8(token, i);
    const int byte = c.valid ? char_to_byte(c.code) : -1;
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
    i += c.length;
  }
  return out;
}

}  // namespace ida::text

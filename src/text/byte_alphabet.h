// The GPT-2 byte alphabet: a printable character for each of the 256 bytes, so that byte strings are legal JSON text.
// Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68, in order, are U+0100 onwards.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ida::text {

char32_t byte_to_char(unsigned char byte);
// The byte a character stands for, or -1.
int char_to_byte(char32_t code);

std::string bytes_to_alphabet(std::string_view bytes);
// The bytes that `token` spells; nothing when a character is outside the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view token);

}  // namespace ida::text

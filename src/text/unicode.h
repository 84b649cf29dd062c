// UTF-8 and the few Unicode properties that tokenizers ask for, on text that may hold invalid bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ida::text {

// One decoded character. Invalid input gives length 1 and valid = false; overlong forms, surrogates and code points
// above U+10FFFF are invalid (Unicode 15, table 3-7).
struct Utf8Char {
  char32_t code = 0;
  std::uint8_t length = 1;  // bytes
  bool valid = false;
};

// The character at `offset` < text.size().
Utf8Char decode_utf8(std::string_view text, std::size_t offset);
void append_utf8(std::string& out, char32_t code);
bool is_valid_utf8(std::string_view text);

// End of the longest run from `begin` that is all valid (or all invalid) UTF-8; `valid` says which.
std::size_t utf8_run_end(std::string_view text, std::size_t begin, bool& valid);

// Calls visit(run, valid) for the maximal valid and invalid runs of `text`, in order.
template <typename Visit>
void for_each_utf8_run(std::string_view text, Visit&& visit) {
  for (std::size_t begin = 0; begin < text.size();) {
    bool valid = false;
    const std::size_t end = utf8_run_end(text, begin, valid);
    visit(text.substr(begin, end - begin), valid);
    begin = end;
  }
}

using CharPredicate = bool (*)(char32_t);

bool is_white_space(char32_t code);  // property White_Space
bool is_numeric(char32_t code);      // Nd, Nl, No
bool is_punctuation(char32_t code);  // ASCII punctuation or a P category
bool is_word_char(char32_t code);    // what `\w` means to Unicode regexes: Alphabetic, M, Nd, Pc, Join_Control

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Normalises valid runs and copies invalid bytes. Linear but for the sorting of each run of combining marks.
std::string normalize_utf8(std::string_view text, NormalForm form);
// Full lower-case mapping without context (no final sigma).
std::string lowercase_utf8(std::string_view text);

}  // namespace ida::text

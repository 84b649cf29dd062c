#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ida::text {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;

bool is_continuation(std::string_view text, std::size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
}

// First offset from `begin` that is not ASCII.
std::size_t skip_ascii(std::string_view text, std::size_t begin) {
  std::size_t i = begin;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & kHighBits) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

// Sorts each run of marks by combining class, stably. utf8proc sorts by repeated swaps, quadratic in the run.
void reorder_marks(std::vector<utf8proc_int32_t>& codes) {
  using Mark = std::pair<int, utf8proc_int32_t>;
  std::vector<Mark> marks;
  for (std::size_t i = 0; i < codes.size();) {
    const int first_class = utf8proc_get_property(codes[i])->combining_class;
    if (first_class == 0) {
      ++i;
      continue;
    }
    marks.assign(1, {first_class, codes[i]});
    std::size_t end = i + 1;
    for (; end < codes.size(); ++end) {
      const int combining_class = utf8proc_get_property(codes[end])->combining_class;
      if (combining_class == 0) break;
      marks.emplace_back(combining_class, codes[end]);
    }
    std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < marks.size(); ++k) codes[i + k] = marks[k].second;
    i = end;
  }
}

void append_normalized(std::string& out, std::string_view valid_text, NormalForm form) {
  const bool compat = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const auto decompose_options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(valid_text.size());
  for (std::size_t i = 0; i < valid_text.size();) {
    const Utf8Char c = decode_utf8(valid_text, i);
    utf8proc_int32_t parts[32];  // the longest decomposition has 18 code points (U+FDFA)
    int last_bound_class = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), parts, 32, decompose_options, &last_bound_class);
    if (count < 0 || count > 32) fail_runtime("utf8proc_decompose_char failed on U+{:04X}", static_cast<unsigned>(c.code));
    codes.insert(codes.end(), parts, parts + count);
    i += c.length;
  }
  reorder_marks(codes);
  auto length = static_cast<utf8proc_ssize_t>(codes.size());
  if (compose) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    length = utf8proc_normalize_utf32(codes.data(), length, options);
    if (length < 0) fail_runtime("utf8proc_normalize_utf32 failed: {}", utf8proc_errmsg(length));
  }
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(out, static_cast<char32_t>(codes[static_cast<std::size_t>(i)]));
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, std::size_t offset) {
  const auto lead = static_cast<unsigned char>(text[offset]);
  if (lead < 0x80) return {lead, 1, true};
  const auto tail = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[offset + i]) & 0x3F);
  };
  if (lead >= 0xC2 && lead <= 0xDF && is_continuation(text, offset + 1)) {
    return {static_cast<char32_t>(lead & 0x1F) << 6 | tail(1), 2, true};
  }
  if ((lead & 0xF0) == 0xE0 && is_continuation(text, offset + 1) && is_continuation(text, offset + 2)) {
    const char32_t code = static_cast<char32_t>(lead & 0x0F) << 12 | tail(1) << 6 | tail(2);
    if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {code, 3, true};
  }
  if (lead >= 0xF0 && lead <= 0xF4 && is_continuation(text, offset + 1) && is_continuation(text, offset + 2) &&
      is_continuation(text, offset + 3)) {
    const char32_t code = static_cast<char32_t>(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
    if (code >= 0x10000 && code <= 0x10FFFF) return {code, 4, true};
  }
  return {lead, 1, false};
}

void append_utf8(std::string& out, char32_t code) {
  const auto push = [&out](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | code >> 6), push(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    push(0xE0 | code >> 12), push(0x80 | (code >> 6 & 0x3F)), push(0x80 | (code & 0x3F));
  } else {
    push(0xF0 | code >> 18), push(0x80 | (code >> 12 & 0x3F)), push(0x80 | (code >> 6 & 0x3F)), push(0x80 | (code & 0x3F));
  }
}

std::size_t utf8_run_end(std::string_view text, std::size_t begin, bool& valid) {
  std::size_t i = begin;
  if (i >= text.size()) return i;
  valid = decode_utf8(text, i).valid;
  while (i < text.size()) {
    if (valid) i = skip_ascii(text, i);
    if (i >= text.size()) break;
    const Utf8Char c = decode_utf8(text, i);
    if (c.valid != valid) break;
    i += c.length;
  }
  return i;
}

bool is_valid_utf8(std::string_view text) {
  bool valid = true;
  return text.empty() || (utf8_run_end(text, 0, valid) == text.size() && valid);
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_numeric(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  switch (category(code)) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return true;
    default: return false;
  }
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
  }
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_word_char(char32_t code) {
  if (code < 0x80) {
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9') || code == '_';
  }
  if (code == 0x200C || code == 0x200D) return true;
  // Circled and squared letters: category So with the property Other_Alphabetic.
  if ((code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
      (code >= 0x1F170 && code <= 0x1F189)) {
    return true;
  }
  const auto c = category(code);
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ME) || c == UTF8PROC_CATEGORY_ND ||
         c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC;
}

std::string normalize_utf8(std::string_view text, NormalForm form) {
  if (skip_ascii(text, 0) == text.size()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for_each_utf8_run(text, [&](std::string_view run, bool valid) {
    if (valid) {
      append_normalized(out, run, form);
    } else {
      out += run;
    }
  });
  return out;
}

std::string lowercase_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (!c.valid) {
      out += text[i];
    } else if (c.code == 0x130) {  // the one character whose full lower-case form has two code points
      out += "i\xCC\x87";
    } else {
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))));
    }
    i += c.length;
  }
  return out;
}

}  // namespace ida::text

#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/json.h"
#include "text/unicode.h"

namespace ida::text {
namespace {

constexpr std::size_t kJitStackStartBytes = 64 << 10;
constexpr std::size_t kJitStackMaxBytes = 64 << 20;
// PCRE2's default; longer subjects get more in proportion, so that linear patterns never reach it.
constexpr std::uint32_t kMatchLimitFloor = 10'000'000;
constexpr std::uint64_t kMatchLimitPerByte = 64;
constexpr std::uint32_t kMaxPatternGroups = 100;

// What a thread needs to match: one result pair, a JIT stack, limits.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackStartBytes, kJitStackMaxBytes, nullptr);
  std::uint32_t match_limit = 0;

  Scratch() {
    if (data == nullptr || context == nullptr || stack == nullptr) throw std::bad_alloc();
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void allow(std::size_t subject_bytes) {
    const std::uint64_t wanted = std::min<std::uint64_t>(subject_bytes * kMatchLimitPerByte, UINT32_MAX);
    const std::uint32_t limit = std::max(kMatchLimitFloor, static_cast<std::uint32_t>(wanted));
    if (limit == match_limit) return;
    match_limit = limit;
    pcre2_set_match_limit(context, limit);
  }
};

Scratch& scratch() {
  thread_local Scratch value;
  return value;
}

std::string error_text(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view where) : pattern_(pattern) {
  const std::string translated = translate_pattern(pattern, where);
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxPatternGroups);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context.get());
  if (code == nullptr) {
    fail_usage("{}: regex `{}` is not accepted: {}", where, printable_excerpt(pattern), error_text(error));
  }
  code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  // Without a JIT (hardened systems) matching still works through the interpreter.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

bool Regex::find(std::string_view subject, std::size_t from, std::size_t& begin, std::size_t& end) const {
  Scratch& s = scratch();
  s.allow(subject.size());
  const int rc = pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(subject.data()),
                             subject.size(), from, PCRE2_NO_UTF_CHECK, s.data, s.context);
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0) {
    fail_runtime("regex `{}` failed on a text of {} bytes at offset {}: {}", printable_excerpt(pattern_), subject.size(),
                 from, error_text(rc));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(s.data);
  begin = bounds[0];
  end = std::max(bounds[0], bounds[1]);
  return true;
}

std::size_t Regex::next_char(std::string_view subject, std::size_t offset) {
  return offset < subject.size() ? offset + decode_utf8(subject, offset).length : offset + 1;
}

}  // namespace ida::text

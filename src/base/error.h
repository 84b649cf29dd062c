// Errors the user can cause, as exceptions that carry the process exit code.
//
// Three tiers: bad input and failed environment throw ida::Error (one line: what, where, expected, got,
// what to do); a broken invariant of our own is an `assert`; a device or library failure is an ida::Error
// of kind kRuntime that names the failing call.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ida {

// Process exit codes, fixed for every command.
enum class ExitCode : int {
  kDone = 0,
  kRuntime = 1,  // run-time failure: out of memory, I/O, a library refused
  kUsage = 2,    // command line, config, unsupported feature of a model or tokenizer
  kGate = 3,     // a gate refused: unpromoted engine, failed probe, forbidden fallback, training gate
  kCorrupt = 4,  // corrupt data or checkpoint
  kStopped = 75  // stopped by a signal, saved, resumable
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
[[noreturn]] void fail_runtime(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kRuntime, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kUsage, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
[[noreturn]] void fail_gate(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kGate, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
[[noreturn]] void fail_corrupt(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kCorrupt, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ida

// What the targets share: statements that must hold, refusals that must be one clear line, files in memory.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "fuzz/targets.h"

namespace ida::fuzz {

// Throws std::logic_error, which no target catches: libFuzzer reports a crash, the replay a failed test.
void require(bool condition, std::string_view what);

// A refusal is one printable line of bounded length with one of the given codes.
void check_refusal(const Error& error, std::initializer_list<ExitCode> codes);

// False where the action refused its input.
template <typename Action>
bool accepted(std::initializer_list<ExitCode> codes, Action&& action) {
  try {
    std::forward<Action>(action)();
    return true;
  } catch (const Error& error) {
    check_refusal(error, codes);
    return false;
  }
}

inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

// `text` cut at its first `num_parts - 1` NUL bytes; missing parts are empty.
std::vector<std::string_view> split_at_nul(std::string_view text, std::size_t num_parts);

// A folder of this process on a file system in memory where there is one; removed at exit.
const std::string& scratch_folder();
// Writes a file of that folder in place, without syncs, and returns its path.
std::string scratch_file(std::string_view name, std::string_view bytes);
std::string read_scratch_file(std::string_view name);

}  // namespace ida::fuzz

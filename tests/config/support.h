// Short ways to a configuration and to the message of a refused one.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "config/setting.h"

namespace ida::config {

// The smallest complete file; further lines go into sections of their own.
inline const std::string kMinimal =
    "[run]\nname = \"r\"\n[data]\ntrain = [\"a.txt\"]\n[train]\nsteps = 1000\n[model]\npreset = \"tiny\"\n";

inline std::string refused(ExitCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "accepted";
  return "";
}

inline std::string refused_read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return refused(ExitCode::kUsage, [&] { read_run_config(text, "run.toml", overrides); });
}

inline std::string refused_parse(const std::string& text, const std::vector<std::string>& overrides = {},
                                 ExitCode code = ExitCode::kUsage) {
  return refused(code, [&] { parse_run_config(text, "run.toml", overrides); });
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

inline std::string leaf_of(std::string_view path) { return std::string(path.substr(path.rfind('.') + 1)); }

// One setting in a file of three lines: the value stands on line 3.
inline std::string file_with(std::string_view path, const std::string& value) {
  return fmt::format("# a comment\n[{}]\n{} = {}\n", section_of(path), leaf_of(path), value);
}

}  // namespace ida::config

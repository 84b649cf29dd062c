// Small tokenizer.json files for tests, where shared data lies, and a check of error codes.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace ida::text {

using Ids = std::vector<std::int32_t>;

// A character-level BPE: ids in the order of `tokens`; merges as "a b".
inline nlohmann::json bpe_json(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  nlohmann::json vocab = nlohmann::json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
  return {{"version", "1.0"}, {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

inline nlohmann::json added_token(std::int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", false}};
}

inline Tokenizer make_tokenizer(const nlohmann::json& json) { return Tokenizer::from_json(json.dump()); }

// The spellings of the tokens of `text`, which is easier to read in a failure than ids.
inline std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> tokens;
  for (const std::int32_t id : tokenizer.encode(text)) tokens.push_back(tokenizer.token_of(id).value());
  return tokens;
}

template <typename Action>
void expect_error(ExitCode code, std::string_view words, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
  }
}

// `relative` inside the folder of shared data; empty where that folder is absent.
inline std::filesystem::path shared_path(const std::string& relative) {
  const char* shared = std::getenv("IDA_TRAIN_SHARED");
  const std::filesystem::path root =
      shared != nullptr ? std::filesystem::path(shared) : std::filesystem::path(IDA_TESTS_DIR) / ".." / ".." / "shared";
  const std::filesystem::path path = root / relative;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace ida::text

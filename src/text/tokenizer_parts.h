// What a loaded tokenizer consists of, and how its files are read.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

namespace ida::text {

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  AddedTokens added;
  PostProcessor around;  // after tokenizer_config.json has had its say
  Decoder decoder;
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> eos;
  std::optional<std::int32_t> pad;
  std::int64_t vocab_size = 0;
  std::string source;  // tokenizer.json
  std::string config;  // tokenizer_config.json
  std::string content_hash;

  std::optional<std::int32_t> id_of(std::string_view token) const;
  std::optional<std::string> token_of(std::int64_t id) const;
};

// What matters in a tokenizer_config.json.
struct TokenizerConfig {
  std::string bos_token;  // empty: not given
  std::string eos_token;
  std::string pad_token;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::string tokenizer_class;
  std::vector<AddedToken> added_tokens;
};
TokenizerConfig read_tokenizer_config(std::string_view config_json, std::string_view origin);

// One entry of "added_tokens" or "added_tokens_decoder".
AddedToken read_added_token(const class JsonPart& json, std::int64_t id);

// Settles bos, eos, pad and `around` from the configuration, the post-processor and well-known names.
void resolve_special_tokens(TokenizerParts& parts, const TokenizerConfig& config, std::string_view origin);

// A tokenizer_config.json that says what `parts` resolved to.
std::string make_tokenizer_config(const TokenizerParts& parts);

struct RankedToken {
  std::string token;  // bytes
  std::int64_t rank = 0;
};

// The lines of a tiktoken rank file by rank; at least one. Errors are kCorrupt, or kUsage for other formats.
std::vector<RankedToken> read_rank_file(std::string_view rank_file, std::string_view origin);

// A tokenizer.json for a tiktoken rank file of the Llama-3 kind. Errors as read_rank_file; kCorrupt for
// a token given twice.
std::string tokenizer_json_of_ranks(std::string_view rank_file, std::string_view origin);

}  // namespace ida::text

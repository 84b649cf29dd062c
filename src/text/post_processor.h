// Post-processors of a tokenizer.json: the special tokens put around one encoded text.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace ida::text {

// Ids before and after the text. ByteLevel changes offsets only and adds nothing; TemplateProcessing (its `single`
// form), RobertaProcessing, BertProcessing and Sequence are read; other types are refused by name (kUsage).
struct PostProcessor {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

// `json` is the value under "post_processor" (null: adds nothing).
PostProcessor read_post_processor(const nlohmann::json& json, std::string_view where);

}  // namespace ida::text

#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ida {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "f.json");
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::kCorrupt));
    EXPECT_LT(std::string(error.what()).size(), 300U);
    return error.what();
  }
  return "";
}

TEST(Json, AcceptsDocuments) {
  EXPECT_EQ(parse_json(" [1, -2.5e3, \"\\u00e9\", {\"a\": {\"a\": null}}]\n", "f")[1], -2500.0);
  EXPECT_EQ(parse_json(R"([{"a": 1}, {"a": 2}])", "f").size(), 2U);
  EXPECT_EQ(refusal(std::string(kMaxJsonDepth - 1, '[') + std::string(kMaxJsonDepth - 1, ']')), "");
}

TEST(Json, RefusesWhatStrictJsonForbids) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":1,}", "01", "+1", "1e400", "NaN", "\"\t\"", "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"", "\"\\ud800\"", "1 2", "// c\n1",
                           "\xEF\xBB\xBF"
                           "1",
                           "'a'"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
  EXPECT_NE(refusal(std::string("1\0", 2)).find("NUL"), std::string::npos);
  EXPECT_NE(refusal(R"([{"a": 1, "b": 2, "a": 1}])").find("'a' appears twice"), std::string::npos);
  EXPECT_NE(refusal(R"({"a": 1, "\u0061": 1})").find("twice"), std::string::npos);
  EXPECT_NE(refusal(std::string(kMaxJsonDepth, '[')).find("nested"), std::string::npos);
  EXPECT_NE(refusal(std::string(1 << 22, '[')).find("nested"), std::string::npos);
  EXPECT_NE(refusal("\"" + std::string(5000, 'x')), "");
}

TEST(Json, ExcerptsArePrintableAndBounded) {
  EXPECT_EQ(printable_excerpt("a\nb\xFF"), "a\\x0ab\\xff");
  EXPECT_LT(printable_excerpt(std::string(1000, 'x')).size(), 200U);
  EXPECT_EQ(json_excerpt(nlohmann::json{{"a", "\xFF"}}).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace ida

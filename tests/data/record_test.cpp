#include "data/record.h"

#include "data_test_util.h"

namespace ida::data {
namespace {

std::vector<Message> messages_of(const std::string& line) {
  const Record record = parse_record(line, "f:1");
  EXPECT_EQ(record.form, RecordForm::kConversation);
  return record.messages;
}

TEST(Record, TextAmongOtherKeys) {
  const Record record = parse_record(
      "{\"id\": [1, {\"text\": 3}], \"text\": \"a\\u00e9\\n\\ud83d\\ude00\", \"m\": null, \"prompt\": \"p\"}\r", "f:1");
  EXPECT_EQ(record.form, RecordForm::kText);
  EXPECT_EQ(record.text, "a\xc3\xa9\n\xf0\x9f\x98\x80");
  EXPECT_EQ(parse_record("{\"text\": \"\"}", "f:1").text, "");
}

TEST(Record, ThreeSpellingsOfAConversation) {
  const std::vector<Message> expected = {{"user", "q"}, {"assistant", "a"}};
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"),
            expected);
  EXPECT_EQ(messages_of(R"({"id": 3, "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})"),
            expected);
  EXPECT_EQ(messages_of(R"({"instruction": "q", "input": "", "output": "a"})"), expected);
  EXPECT_EQ(messages_of(R"({"output": "a", "instruction": "q"})"), expected);
  EXPECT_EQ(messages_of(R"({"instruction": "q", "input": "i", "output": "a"})")[0].content, "q\n\ni");
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "system", "content": ""}, {"role": "tool", "content": "t"}]})"),
            (std::vector<Message>{{"system", ""}, {"tool", "t"}}));
  EXPECT_TRUE(messages_of(R"({"messages": []})").empty());
}

TEST(Record, PromptAndCompletion) {
  const Record record = parse_record(R"({"prompt": "p", "completion": "c", "chosen": 1})", "f:1");
  EXPECT_EQ(record.form, RecordForm::kCompletion);
  EXPECT_EQ(record.prompt + "|" + record.completion, "p|c");
}

TEST(Record, IdsAndLabels) {
  Record record = parse_record(R"({"input_ids": [5, 0, 7], "labels": [-100, 0, 7], "attention_mask": [1, 1, 1]})", "f:1");
  EXPECT_EQ(record.form, RecordForm::kIds);
  EXPECT_EQ(record.ids, (std::vector<std::int32_t>{5, 0, 7}));
  EXPECT_EQ(record.trained, (std::vector<std::uint8_t>{0, 1, 1}));
  record = parse_record(R"({"input_ids": [5]})", "f:1");
  EXPECT_TRUE(record.trained.empty());
  for (const char* line :
       {R"({"input_ids": 5})", R"({"input_ids": ["5"]})", R"({"input_ids": [5.0]})", R"({"input_ids": [-1]})",
        R"({"input_ids": [2147483648]})", R"({"input_ids": [18446744073709551615]})", R"({"input_ids": [5], "labels": []})",
        R"({"input_ids": [5], "labels": [6]})", R"({"input_ids": [5], "labels": null})"}) {
    expect_error(ExitCode::kCorrupt, {"f:9"}, [&] { parse_record(line, "f:9"); });
  }
}

TEST(Record, NoFormOrTwoIsOneClearError) {
  expect_error(ExitCode::kUsage, {"f:3", "question, answer", "no known form", "prompt and completion"},
               [] { parse_record(R"({"question": "q", "answer": "a"})", "f:3"); });
  for (const char* line : {R"({"prompt": "a"})", R"({"completion": "a"})", R"({"instruction": "a", "input": "b"})", R"({})",
                           R"({"body": {"text": "a"}})", R"({"labels": [1]})"}) {
    expect_error(ExitCode::kUsage, {"f:3", "no known form"}, [&] { parse_record(line, "f:3"); });
  }
  for (const char* line :
       {R"({"text": "a", "messages": []})", R"({"messages": [], "conversations": []})",
        R"({"instruction": "a", "output": "b", "text": "c"})", R"({"prompt": "a", "completion": "b", "input_ids": [1]})"}) {
    expect_error(ExitCode::kUsage, {"f:3", "more than one form"}, [&] { parse_record(line, "f:3"); });
  }
}

TEST(Record, DamagedConversationsAreNamed) {
  const auto refused = [](const char* line, ExitCode code, const std::vector<std::string>& parts) {
    expect_error(code, parts, [&] { parse_record(line, "f:4"); });
  };
  refused(R"({"messages": "hi"})", ExitCode::kCorrupt, {"f:4", "messages", "array"});
  refused(R"({"messages": ["hi"]})", ExitCode::kCorrupt, {"messages[0]", "object"});
  refused(R"({"messages": [{"role": "user", "content": "a"}, {"role": "user"}]})", ExitCode::kCorrupt,
          {"messages[1].content is missing"});
  refused(R"({"messages": [{"role": "user", "content": null}]})", ExitCode::kCorrupt, {"messages[0].content", "string"});
  refused(R"({"messages": [{"content": "a"}]})", ExitCode::kCorrupt, {"messages[0].role is missing"});
  refused(R"({"messages": [{"role": "robot", "content": "a"}]})", ExitCode::kCorrupt, {"robot", "assistant"});
  refused(R"({"conversations": [{"from": "human", "content": "a"}]})", ExitCode::kCorrupt, {"conversations[0].value"});
  refused(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": []}]})", ExitCode::kUsage, {"tool_calls"});
  refused(R"({"messages": [{"role": "user", "role": "assistant", "content": "a"}]})", ExitCode::kCorrupt, {"f:4", "role"});
  refused(R"({"prompt": "a", "completion": ["b"]})", ExitCode::kCorrupt, {"completion", "string"});
  refused(R"({"instruction": "a", "input": 3, "output": "b"})", ExitCode::kCorrupt, {"input", "string"});
}

TEST(Record, Malformed) {
  for (const char* line : {"", "{", "{\"text\": \"a\"} x", "{\"text\": \"a\"", "{'text': 'a'}", "{\"text\": \"\\ud800\"}",
                           "{\"text\": \"\xff\"}", "[\"text\"]", "\"text\"", "7", "{\"text\": 1}", "{\"text\": null}",
                           "{\"text\": {\"text\": \"a\"}}", "{\"text\": [\"a\"]}", "{\"text\": \"a\", \"text\": \"b\"}",
                           "{\"text\": \"a\", \"n\": 1e999}", "{\"prompt\": \"a\", \"prompt\": \"b\"}"}) {
    expect_error(ExitCode::kCorrupt, {"f:9"}, [&] { parse_record(line, "f:9"); });
  }
  const std::string deep = "{\"a\": " + std::string(200000, '[');
  expect_error(ExitCode::kCorrupt, {"nested deeper"}, [&] { parse_record(deep, "f:9"); });
}

}  // namespace
}  // namespace ida::data

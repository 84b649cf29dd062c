// Loss masks: what each form of record becomes, and which of its tokens may be targets.
#include "data/encode_document.h"

#include "data/batch_stream.h"
#include "data/prepare_dataset.h"
#include "data_test_util.h"

namespace ida::data {
namespace {

constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "q1"}, )"
    R"({"role": "assistant", "content": "a1"}, {"role": "user", "content": "q2"}, {"role": "assistant", "content": "a2"}]})";

EncodedDocument encode(const std::string& line, LossMask mask, const TokenEncoder& encoder = ByteEncoder()) {
  const SourceFile file{"d.jsonl", "d.jsonl"};
  RawDocument raw;
  raw.file = &file;
  raw.line = 7;
  raw.line_text = line;
  return encode_document(raw, encoder, mask, PlainChatTemplate());
}

// The ids as text, BOS and EOS as '<' and '>', what may not be a target in brackets.
std::string shown(const std::string& line, LossMask mask, const TokenEncoder& encoder = ByteEncoder()) {
  const EncodedDocument document = encode(line, mask, encoder);
  if (document.error) std::rethrow_exception(document.error);
  std::string out;
  bool inside = false;
  for (std::size_t i = 0; i <= document.ids.size(); ++i) {
    const bool masked = i < document.ids.size() && !document.trained.empty() && document.trained[i] == 0;
    if (masked != inside) out += masked ? '[' : ']';
    inside = masked;
    if (i == document.ids.size()) break;
    const std::int32_t id = document.ids[i];
    out += id == 256 ? '<' : id == 257 ? '>' : static_cast<char>(id);
  }
  return out;
}

TEST(Mask, AssistantTrainsEveryAnswerWithItsEnd) {
  EXPECT_EQ(shown(kTwoTurns, LossMask::kAll),
            "<<|system|>\nS>\n<|user|>\nq1>\n<|assistant|>\na1>\n<|user|>\nq2>\n<|assistant|>\na2>");
  EXPECT_EQ(shown(kTwoTurns, LossMask::kAssistant),
            "[<<|system|>\nS>\n<|user|>\nq1>\n<|assistant|>\n]a1>[\n<|user|>\nq2>\n<|assistant|>\n]a2>");
}

TEST(Mask, CompletionTrainsTheLastAnswerAlone) {
  EXPECT_EQ(shown(kTwoTurns, LossMask::kCompletion),
            "[<<|system|>\nS>\n<|user|>\nq1>\n<|assistant|>\na1>\n<|user|>\nq2>\n<|assistant|>\n]a2>");
  const char* line = R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "q"}]})";
  EXPECT_EQ(shown(line, LossMask::kCompletion), "[<<|assistant|>\n]a>[\n<|user|>\nq>]")
      << "the last answer, not the last turn";
}

TEST(Mask, CompletionsAndInstructions) {
  const char* pair = R"({"prompt": "2+2=", "completion": "4"})";
  EXPECT_EQ(shown(pair, LossMask::kAll), "<2+2=4>");
  EXPECT_EQ(shown(pair, LossMask::kAssistant), "[<2+2=]4>");
  EXPECT_EQ(shown(pair, LossMask::kCompletion), "[<2+2=]4>");
  EXPECT_EQ(shown(R"({"prompt": "", "completion": "c"})", LossMask::kCompletion), "[<]c>");
  EXPECT_EQ(shown(R"({"prompt": "p", "completion": ""})", LossMask::kCompletion), "[<p]>") << "to stop is the answer";
  EXPECT_EQ(shown(R"({"instruction": "q", "input": "i", "output": "a"})", LossMask::kAssistant),
            "[<<|user|>\nq\n\ni>\n<|assistant|>\n]a>");
}

TEST(Mask, MarksExistOnceWhateverTheTextHolds) {
  // 0x01 stands for BOS and 0x02 for EOS written in the text.
  struct Marked : ByteEncoder {
    using ByteEncoder::ByteEncoder;
    std::vector<std::int32_t> encode(std::string_view text) const override {
      std::vector<std::int32_t> ids = ByteEncoder::encode(text);
      for (std::int32_t& id : ids) id = id == 1 ? 256 : id == 2 ? 257 : id;
      return ids;
    }
  };
  EXPECT_EQ(shown(R"({"text": "\u0001x\u0002"})", LossMask::kAll, Marked()), "<x>");
  EXPECT_EQ(shown(R"({"prompt": "\u0001p", "completion": "c\u0002"})", LossMask::kCompletion, Marked()), "[<p]c>");
  EXPECT_EQ(shown(R"({"messages": [{"role": "assistant", "content": "a\u0002"}]})", LossMask::kAssistant, Marked()),
            "[<<|assistant|>\n]a>");
  EXPECT_EQ(shown(R"({"prompt": "p", "completion": "c"})", LossMask::kAll, ByteEncoder(false)), "pc>");
}

TEST(Mask, IdsStayAsTheyAre) {
  EXPECT_EQ(shown(R"({"input_ids": [97, 98, 257, 99], "labels": [-100, 98, 257, -100]})", LossMask::kAll), "[a]b>[c]");
  EXPECT_EQ(shown(R"({"input_ids": [97, 98], "labels": [-100, 98]})", LossMask::kAssistant), "[a]b");
  EXPECT_EQ(shown(R"({"input_ids": [97, 98]})", LossMask::kAll), "ab");
  EXPECT_EQ(encode(R"({"input_ids": [256, 97, 257]})", LossMask::kAll).text_bytes, 1U);
  expect_error(ExitCode::kCorrupt, {"d.jsonl:7", "input_ids[1] is 258"},
               [] { shown(R"({"input_ids": [97, 258]})", LossMask::kAll); });
}

TEST(Mask, TextWithoutAnAnswerIsRefusedUnderAMask) {
  for (const LossMask mask : {LossMask::kAssistant, LossMask::kCompletion}) {
    expect_error(ExitCode::kUsage, {"d.jsonl:7", "data.mask", "shard of its own"},
                 [&] { shown(R"({"text": "t"})", mask); });
    expect_error(ExitCode::kUsage, {"d.jsonl:7", "labels"}, [&] { shown(R"({"input_ids": [97, 98]})", mask); });
  }
  expect_error(ExitCode::kUsage, {"d.jsonl:7", "EOS"}, [] { shown(kTwoTurns, LossMask::kAll, ByteEncoder(true, false)); });
}

TEST(Mask, DocumentsWithoutATargetAreCounted) {
  EXPECT_EQ(encode(R"({"messages": [{"role": "user", "content": "q"}]})", LossMask::kAssistant).status,
            DocumentStatus::kUntrained);
  EXPECT_EQ(encode(R"({"input_ids": [97, 98], "labels": [97, -100]})", LossMask::kAll).status, DocumentStatus::kUntrained)
      << "nothing comes before the first token";
  for (const char* line : {R"({"messages": []})", R"({"prompt": "", "completion": ""})", R"({"input_ids": []})"})
    EXPECT_EQ(encode(line, LossMask::kAll).status, DocumentStatus::kEmpty) << line;
}

// An encoder that leaves nothing of any text, as a normaliser may.
class SilentEncoder final : public ByteEncoder {
 public:
  std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
};

TEST(Mask, DocumentsOfWhichNothingIsLeftAreEmpty) {
  const SilentEncoder encoder;
  for (const char* line :
       {R"({"text": "t"})", R"({"prompt": "p", "completion": "c"})", R"({"prompt": "", "completion": "c"})"}) {
    const EncodedDocument document = encode(line, LossMask::kAll, encoder);
    EXPECT_EQ(document.status, DocumentStatus::kEmpty) << line;
    EXPECT_TRUE(document.ids.empty()) << line;
  }
}

TEST(Mask, ReachesTheLabelsOfATrainingRow) {
  TempFolder folder;
  const std::string path =
      folder.write("c.jsonl", std::string(kTwoTurns) + "\n" + R"({"messages": [{"role": "user", "content": "q"}]})" + "\n" +
                                  R"({"prompt": "p", "completion": "c"})" + "\n");
  const PreparedData data =
      prepare_dataset({path}, ByteEncoder(), folder / "c.shard", {.mask = LossMask::kAssistant, .progress = {}});
  EXPECT_EQ(data.report.num_documents, 2);
  EXPECT_EQ(data.report.num_untrained, 1);
  BatchStream stream(data.dataset, {.seq_len = 128, .shuffle = false, .weights = {}});
  const Batch batch = stream.next(1);
  std::string targets;
  for (const std::int32_t label : batch.labels) {
    if (label != kIgnoreLabel) targets += label == 257 ? '>' : static_cast<char>(label);
  }
  EXPECT_TRUE(prepare_dataset({path}, ByteEncoder(), folder / "c.shard").built) << "another mask is another shard";
  EXPECT_EQ(targets, "a1>a2>c>") << "the end of each answer stays a target in both documents";
}

}  // namespace
}  // namespace ida::data

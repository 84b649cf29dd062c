#include "data/inspect.h"

#include "data_test_util.h"

namespace ida::data {
namespace {

std::string decode(std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) text += id == 256 ? "<s>" : id == 257 ? "</s>" : std::string(1, static_cast<char>(id));
  return text;
}

TEST(Inspect, EscapesWhatDoesNotPrint) {
  EXPECT_EQ(escape_text("a\nb\t\\ \x01\x7f caf\xc3\xa9 \xff \xc3 \xed\xa0\x80 \xf0\x9f\x98\x80 \xc0\x80"),
            "a\\nb\\t\\\\ \\x01\\x7f caf\xc3\xa9 \\xff \\xc3 \\xed\\xa0\\x80 \xf0\x9f\x98\x80 \\xc0\\x80");
}

TEST(Inspect, MarksWhatIsNotTrained) {
  TempFolder folder;
  ShardInfo info = test_info(258);
  info.has_mask = true;
  const TokenDataset dataset =
      dataset_of(folder, {{{256, 'a', 'b', 'c', 'd', 257}, 0, {0, 0, 0, 1, 1, 1}, 4}, {{256, 0xC3, 0xA9}, 0, {}, 2}}, info);
  EXPECT_EQ(render_document(dataset, 0, decode), "document 0 source a: 6 tokens, 4 bytes of text\n    [[<s>ab]]cd</s>\n");
  InspectOptions options;
  options.max_tokens_per_segment = 4;
  options.ids = true;
  EXPECT_EQ(render_document(dataset, 0, decode, options),
            "document 0 source a: 6 tokens, 4 bytes of text\n    ids: 256 97 98 99\n    [[<s>ab]]c ... 2 more tokens\n");
  PackingOptions packing;
  packing.seq_len = 4;
  packing.shuffle = false;
  BatchStream stream(dataset, packing);
  EXPECT_EQ(render_batch(stream.next(3), dataset, decode),
            "3 rows of 4 tokens: 3 segments, 5 targets, 75.00% filled\n"
            "row 0: 2 targets\n"
            "  segment [0, 4) source a: 4 tokens, 2 targets\n"
            "    [[<s>ab]]c -> d\n"
            "row 1: 1 targets\n"
            "  segment [0, 2) source a: 2 tokens, 1 targets\n"
            "    [[d]]</s>\n"
            "  unused: 2 positions\n"
            "row 2: 2 targets\n"
            "  segment [0, 3) source a: 3 tokens, 2 targets\n"
            "    [[<s>]]\xc3\xa9\n"
            "  unused: 1 positions\n");
  const std::string dataset_text = describe_dataset(dataset);
  EXPECT_NE(dataset_text.find("1 shards, 2 documents, 9 tokens, vocabulary 258"), std::string::npos) << dataset_text;
  EXPECT_NE(dataset_text.find("source a: 2 documents, 9 tokens (6 trained, 3 masked), 6 bytes of text"), std::string::npos)
      << dataset_text;
  EXPECT_NE(describe_stream(stream).find("3 rows of 4 tokens an epoch, 75.00% filled; 3 pieces"), std::string::npos)
      << describe_stream(stream);
}

}  // namespace
}  // namespace ida::data

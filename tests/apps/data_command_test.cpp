// data build, data inspect.
#include <gtest/gtest.h>

#include "program.h"

namespace ida::app_test {
namespace {

class DataCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 4; ++i)
      space_.write("corpus/" + std::to_string(i) + ".txt",
                   "document " + std::to_string(i) + " says hello to all the others, again and again\n");
    space_.write("more.jsonl", "{\"text\": \"a line of its own\"}\n{\"text\": \"and another one\"}\n");
    ASSERT_EQ(space_.run({"tokenizer", "train", "--vocab-size", "270", "--out", "tok", "corpus"}).code, 0);
  }
  Outcome build() {
    return space_.run(
        {"data", "build", "corpus", "more.jsonl", "--tokenizer", "tok", "--out", "x/a.shard", "--report", "b.json"});
  }
  Workspace space_;
};

TEST_F(DataCommand, BuildsAndShowsAShard) {
  const Outcome built = build();
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_EQ(read_json(space_ / "b.json")["documents"], 6);
  const Outcome shown =
      space_.run({"data", "inspect", "x/a.shard", "--tokenizer", "tok", "--rows", "1", "--ids", "--out", "i.json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("document 0 says hello"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("document 1 says hello"), std::string::npos) << "more rows than asked for";
  const nlohmann::json figures = read_json(space_ / "i.json");
  EXPECT_EQ(figures["tokens"], read_json(space_ / "b.json")["tokens"]);
  EXPECT_EQ(figures["sources"], nlohmann::json({"corpus", "more"}));
}

TEST_F(DataCommand, ThreadsChangeNothing) {
  ASSERT_EQ(build().code, 0);
  const std::string first = read_all(space_ / "x/a.shard");
  ASSERT_EQ(
      space_.run({"data", "build", "corpus", "more.jsonl", "--tokenizer", "tok", "--out", "b.shard", "--threads", "1"})
          .code,
      0);
  EXPECT_EQ(read_all(space_ / "b.shard"), first);
}

TEST_F(DataCommand, ShowsTheRowsOfARunAndWritesNothing) {
  space_.write("c.toml",
               "[run]\nname = \"r\"\n[model]\nhidden_size = 8\nintermediate_size = 8\nnum_hidden_layers = "
               "1\nnum_attention_heads = 1\n"
               "[tokenizer]\npath = \"tok\"\n[data]\ntrain = [\"corpus\"]\nseq_len = 16\n[train]\nsteps = "
               "1\nglobal_batch_tokens = 16\n");
  const Outcome shown = space_.run({"data", "inspect", "c.toml", "--rows", "2", "--out", "i.json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("->"), std::string::npos) << shown.out;
  EXPECT_GT(read_json(space_ / "i.json")["rows_per_epoch"], 2);
  EXPECT_FALSE(exists(space_ / "runs"));
  const Outcome longer =
      space_.run({"data", "inspect", "c.toml", "--set", "data.seq_len=32", "--set", "train.global_batch_tokens=32"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_NE(longer.out, shown.out);
}

TEST_F(DataCommand, Refusals) {
  ASSERT_EQ(build().code, 0);
  expect_refused(space_.run({"data", "inspect", "x/a.shard"}), 2, {"--tokenizer"});
  ASSERT_EQ(space_.run({"tokenizer", "train", "--vocab-size", "260", "--out", "tok2", "corpus"}).code, 0);
  expect_refused(space_.run({"data", "inspect", "x/a.shard", "--tokenizer", "tok2"}), 2, {"another tokenizer"});
  expect_refused(space_.run({"data", "build", "corpus", "--tokenizer", "tok", "--out", "a.bin"}), 2, {".shard"});
  space_.write("bad.jsonl", "{\"text\": \"fine\"}\n{\"txt\": 1}\n");
  const Outcome bad = space_.run({"data", "build", "bad.jsonl", "--tokenizer", "tok", "--out", "c.shard"});
  EXPECT_NE(bad.code, 0);
  EXPECT_NE(bad.err.find("bad.jsonl:2"), std::string::npos) << bad.err;
  std::string shard = read_all(space_ / "x/a.shard");
  shard[shard.size() / 2] ^= 1;
  space_.write("x/a.shard", shard);
  expect_refused(space_.run({"data", "inspect", "x/a.shard", "--tokenizer", "tok"}), 4, {"x/a.shard"});
}

}  // namespace
}  // namespace ida::app_test

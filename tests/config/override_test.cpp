// `--set a.b=value`.
#include "config/support.h"

namespace ida::config {
namespace {

RunConfig set(const std::vector<std::string>& overrides) { return read_run_config("", "run.toml", overrides); }

TEST(Override, WinsOverTheFileAndLaterOverEarlier) {
  const RunConfig config =
      read_run_config("[optim]\nlr = 1.0\n", "t", std::vector<std::string>{"optim.lr=2", "optim.lr=3e-4"});
  EXPECT_EQ(config.optim.lr, 3e-4);
  EXPECT_EQ(config.source_of("optim.lr"), Source::kSet);
}

TEST(Override, PlainTextWhereAWordIsExpected) {
  EXPECT_EQ(set({"run.name=abc"}).run.name, "abc");
  EXPECT_EQ(set({"run.name=42"}).run.name, "42");
  EXPECT_EQ(set({"run.name=2026-01-01"}).run.name, "2026-01-01");
  EXPECT_EQ(set({"run.name=\"quoted\""}).run.name, "quoted");
  EXPECT_EQ(set({"run.name='lit'"}).run.name, "lit");
  EXPECT_EQ(set({"optim.name=lion"}).optim.name, Optimizer::kLion);
  EXPECT_EQ(set({"parallel.schedule=1f1b"}).parallel.schedule, PipelineSchedule::k1F1B);
  EXPECT_EQ(set({"parallel.split=auto"}).parallel.split.layers.size(), 0u);
  EXPECT_EQ(set({"parallel.split=[1, 2]"}).parallel.split.layers.size(), 2u);
  EXPECT_EQ(set({"model.path=../a=b.c"}).model.path, "../a=b.c");
  EXPECT_EQ(set({"train.sample_prompt="}).train.sample_prompt, "");
  EXPECT_EQ(set({"train.sample_prompt=say \"hi\" # now"}).train.sample_prompt, "say \"hi\" # now");
  EXPECT_EQ(set({"train.sample_prompt=two\nlines"}).train.sample_prompt, "two\nlines");
}

TEST(Override, ListsAndTables) {
  EXPECT_EQ(set({"data.train=[\"a\", \"b\"]"}).data.train, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(set({"model.rope_scaling={rope_type=\"llama3\", factor=8}"}).model.rope_scaling.factor, 8.0);
  EXPECT_EQ(set({"precision.override=[{match=\"lm_head\"}]"}).precision.overrides.size(), 1u);
}

TEST(Override, Refusals) {
  EXPECT_EQ(refused_read("", {"optim.lr"}), "--set optim.lr: expected section.key=value");
  EXPECT_TRUE(
      contains(refused_read("", {"optim.lrr=1"}), "--set optim.lrr=1: unknown key optim.lrr; did you mean optim.lr?"));
  EXPECT_TRUE(contains(refused_read("", {"lr=1"}), "did you mean optim.lr?"));
  EXPECT_TRUE(contains(refused_read("", {"=1"}), "unknown key"));
  EXPECT_TRUE(contains(refused_read("", {"optim.lr=fast"}), "expected a number > 0"));
  EXPECT_TRUE(contains(refused_read("", {"optim.lr="}), "expected a number > 0"));
  EXPECT_TRUE(contains(refused_read("", {"optim.lr=\"3e-4\""}), "got the string \"3e-4\""));
  EXPECT_TRUE(contains(refused_read("", {"optim.name=adam"}), "got \"adam\"; did you mean adamw?"));
  EXPECT_TRUE(contains(refused_read("", {"optim.name=3"}), "got 3"));
  EXPECT_TRUE(contains(refused_read("", {"data.train=a.txt"}), "expected a list of strings"));
  EXPECT_TRUE(contains(refused_read("", {"data.train=[\"\"]"}), "is empty"));
  EXPECT_TRUE(contains(refused_read("", {"optim.lr=1\n[run]\nseed = 3"}), "one value"));
  EXPECT_TRUE(contains(refused_read("", {"optim.lr=1\nseed = 3"}), "one value"));
  EXPECT_TRUE(contains(refused_read("", {"optim=3"}), "expected a table"));
  EXPECT_TRUE(contains(refused_read("", {"run.name=\"open"}), "no TOML value"));
  refused_read("", {"run.name=\xff\xfe"});
  refused_read("", {"run.name=\"a\" b"});
  std::string deep = "model.rope_scaling={a";
  for (int i = 0; i < 400000; ++i) deep += ".a";
  refused_read("", {deep + "=1}"});
  refused_read("", {"data.weights=" + std::string(900000, '[')});
}

}  // namespace
}  // namespace ida::config

// data build as users do it: conversations, trees, history, kills; and training on what it made.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "program.h"

namespace ida::app_test {
namespace {

namespace fs = std::filesystem;

std::string words(int count, int seed) {
  constexpr const char* kWords[] = {"river ", "stone ", "cloud ", "walks ", "sings ", "under ", "quiet ", "bright\\n"};
  std::string text;
  auto state = static_cast<std::uint32_t>(seed) * 2654435761u + 1u;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    text += kWords[(state >> 16) % 8];
  }
  return text;
}

std::string conversation(int question_words, int answer_words, int seed) {
  return "{\"messages\": [{\"role\": \"user\", \"content\": \"" + words(question_words, seed) +
         "\"}, {\"role\": \"assistant\", \"content\": \"" + words(answer_words, seed + 1) + "\"}]}\n";
}

std::string config_text(const std::string& name, const std::string& data, int steps) {
  return "[run]\nname = \"" + name +
         "\"\n[model]\nhidden_size = 16\nintermediate_size = 32\nnum_hidden_layers = 1\nnum_attention_heads = 2\n"
         "[tokenizer]\npath = \"tok\"\n[data]\n" +
         data + "seq_len = 32\n[train]\nsteps = " + std::to_string(steps) +
         "\nglobal_batch_tokens = 128\nlog_every = 1\nsave_every = 10\nkeep_last = 0\n[precision]\nrecipe = \"fp32\"\n";
}

class DataBuild : public ::testing::Test {
 protected:
  void SetUp() override {
    space_.write("words.txt", words(300, 0));
    ASSERT_EQ(space_.run({"tokenizer", "train", "--vocab-size", "270", "--out", "tok", "words.txt"}).code, 0);
  }
  std::vector<std::string> call(const std::string& shard, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"data", "build", "--tokenizer", "tok", "--out", shard, "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome build(const std::string& shard, const std::vector<std::string>& more) { return space_.run(call(shard, more)); }
  Workspace space_;
};

TEST_F(DataBuild, KilledAtAnyMomentItEndsWithTheSameBytes) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += "{\"text\": \"" + words(20 + i % 50, i) + "\"}\n";
  space_.write("d.jsonl", lines);
  const std::vector<std::string> options = {"d.jsonl", "--part-tokens", "25000", "--report", "r.json"};
  ASSERT_EQ(build("whole/d.shard", options).code, 0);
  const int parts = read_json(space_ / "r.json")["parts"];
  ASSERT_GT(parts, 8);
  const auto expected = tree_of(space_ / "whole");
  int kills = 0;
  for (const int wanted : {0, 1, 6}) {
    const std::string name = "k" + std::to_string(wanted);
    const pid_t process = space_.start(call(name + "/d.shard", options));
    const auto finished_parts = [&] {
      int count = 0;
      if (exists(space_ / name))
        for (const auto& entry : fs::recursive_directory_iterator(space_ / name))
          count += entry.path().filename().string().size() == 11 && entry.path().extension() == ".shard" ? 1 : 0;
      return count;
    };
    siginfo_t ended = {};
    while (finished_parts() < wanted &&
           waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
      usleep(500);
    if (wanted == 0) usleep(20000);
    kill(process, SIGKILL);
    kills += space_.wait(process).code == 128 + SIGKILL ? 1 : 0;
    const Outcome rest = build(name + "/d.shard", options);
    ASSERT_EQ(rest.code, 0) << rest.err;
    if (wanted > 1) {
      EXPECT_GE(read_json(space_ / "r.json")["parts_reused"], wanted - 1) << "one part may not be noted yet";
    }
    EXPECT_TRUE(tree_of(space_ / name) == expected) << wanted;
  }
  EXPECT_EQ(kills, 3);
}

TEST_F(DataBuild, TrainsOnAnswersAloneAndStaysFinite) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += conversation(3, 5, i);
  // Longer than a row of 32, with and without an answer in it; without any answer.
  for (int i = 0; i < 6; ++i) lines += conversation(60, 4, 100 + i) + conversation(2, 60, 200 + i);
  lines += "{\"messages\": [{\"role\": \"user\", \"content\": \"nobody answers\"}]}\n";
  space_.write("chat.jsonl", lines);
  space_.write("a.toml",
               config_text("a", "train = [\"chat.jsonl\"]\nvalid = [\"chat.jsonl\"]\nmask = \"assistant\"\n", 12));
  const Outcome shown = space_.run({"data", "inspect", "a.toml", "--out", "i.json", "--rows", "1"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("[["), std::string::npos) << shown.out;
  const nlohmann::json figures = read_json(space_ / "i.json");
  EXPECT_EQ(figures["documents"], 42);
  EXPECT_GT(figures["masked_tokens"], 500);
  EXPECT_LT(figures["masked_tokens"], figures["tokens"]);

  const Outcome masked = space_.run({"train", "a.toml", "--threads", "1"});
  ASSERT_EQ(masked.code, 0) << masked.err;
  EXPECT_NE(masked.err.find("1 without a target"), std::string::npos) << masked.err;
  space_.write("b.toml", config_text("b", "train = [\"chat.jsonl\"]\n", 12));
  ASSERT_EQ(space_.run({"train", "b.toml", "--threads", "1"}).code, 0);
  const auto rows = read_json_lines(space_ / "runs/a/metrics.jsonl");
  const auto all = read_json_lines(space_ / "runs/b/metrics.jsonl");
  ASSERT_EQ(rows.size(), 12U);
  for (const nlohmann::json& row : rows) EXPECT_TRUE(row.contains("loss") && !row.contains("non_finite")) << row;
  EXPECT_TRUE(rows.back().contains("val_loss"));
  EXPECT_LT(rows.back()["tokens"], all.back()["tokens"]) << "the mask leaves fewer targets";
}

// The example of docs/data.md.
TEST_F(DataBuild, InspectShowsWhatIsTrained) {
  space_.write("chat.jsonl", "{\"instruction\": \"2+2\", \"output\": \"4\"}\n");
  ASSERT_EQ(build("chat.shard", {"chat.jsonl", "--mask", "assistant"}).code, 0);
  const Outcome shown = space_.run({"data", "inspect", "chat.shard", "--tokenizer", "tok", "--rows", "1"});
  EXPECT_NE(shown.out.find("\n    [[<|user|>\\n2+2<|endoftext|>\\n<|assistant|>\\n]]4<|endoftext|>\n"), std::string::npos)
      << shown.out;
  EXPECT_NE(shown.out.find("(2 trained, "), std::string::npos) << shown.out;
}

TEST_F(DataBuild, AMaskNeedsAnswers) {
  const std::string one = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}\n";
  space_.write("silent.jsonl", one + one);
  expect_refused(build("x.shard", {"silent.jsonl", "--mask", "assistant"}), 2, {"silent.jsonl", "2 without a target"});
  expect_refused(build("x.shard", {"words.txt", "--mask", "completion"}), 2, {"words.txt", "plain text", "data.mask"});
  EXPECT_EQ(build("x.shard", {"words.txt", "--mask", "answers"}).code, 2);
  space_.write("two.jsonl", one + "{\"text\": \"a\", \"messages\": []}\n");
  expect_refused(build("x.shard", {"two.jsonl"}), 2, {"two.jsonl:2", "more than one form"});
  EXPECT_FALSE(exists(space_ / "x.shard"));
}

TEST_F(DataBuild, TreesAreCheckedAgainstTheirManifest) {
  space_.write("tree/a.py", words(20, 1));
  space_.write("tree/sub/b.md", words(20, 2));
  space_.write("tree/c.txt", words(20, 3));
  const Outcome built = build("x/t.shard", {"--tree", "tree", "--ext", "py,md", "--report", "r.json"});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_EQ(read_json(space_ / "r.json")["documents"], 2);
  const nlohmann::json manifest = read_json(space_ / "x/t.manifest.json");
  ASSERT_EQ(manifest["sources"][0]["files"].size(), 2U);
  EXPECT_EQ(manifest["sources"][0]["files"][1]["path"], "sub/b.md");
  EXPECT_EQ(manifest["sources"][0]["files"][1]["bytes"], fs::file_size(space_ / "tree/sub/b.md"));
  const Outcome fine = space_.run({"verify", "data", "x/t.shard"});
  EXPECT_EQ(fine.code, 0) << fine.err;
  space_.write("tree/a.py", "changed");
  const Outcome changed = space_.run({"verify", "data", "x/t.shard", "--out", "v.json"});
  EXPECT_EQ(changed.code, 4);
  EXPECT_NE(changed.err.find("a.py changed"), std::string::npos) << changed.err;
  EXPECT_EQ(read_json(space_ / "v.json")["problems"].size(), 1U);

  ASSERT_EQ(build("y.shard", {"--tree", "tree", "--manifest", "other.json"}).code, 0);
  const Outcome foreign = space_.run({"verify", "data", "x/t.shard", "--manifest", "other.json"});
  EXPECT_EQ(foreign.code, 4);
  EXPECT_NE(foreign.err.find("another build"), std::string::npos) << foreign.err;
  expect_refused(build("z.shard", {"--ext", "py", "words.txt"}), 2, {"--tree"});
  expect_refused(build("z.shard", {"--tree", "tree", "--ext", "cpp"}), 2, {"no file below"});
  expect_refused(build("z.shard", {}), 2, {"no source"});
}

TEST_F(DataBuild, HistoryNeedsGitAndARepository) {
  space_.write("plain/a.txt", "a");
  setenv("GIT_CEILING_DIRECTORIES", space_.path().c_str(), 1);
  expect_refused(build("g.shard", {"--git", "missing"}), 2, {"missing"});
  const std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  expect_refused(build("g.shard", {"--git", "plain"}), 2, {"git", "PATH"});
  setenv("PATH", path.c_str(), 1);
}

// The cursor of a checkpoint is step x rows of a batch over all shards, and resuming in the third goes on there.
TEST_F(DataBuild, ResumesInTheThirdOfSeveralShards) {
  std::int64_t tokens[3];
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::string(1, static_cast<char>('a' + i));
    space_.write(name + ".txt", words(150, i));
    ASSERT_EQ(build(name + ".shard", {name + ".txt", "--report", "r.json"}).code, 0);
    tokens[i] = read_json(space_ / "r.json")["tokens"];
  }
  constexpr std::int64_t kRowsAtTen = 10 * 128 / 32;
  ASSERT_LT(tokens[0] + tokens[1], kRowsAtTen * 32);
  ASSERT_GT(tokens[0] + tokens[1] + tokens[2], (kRowsAtTen + 4) * 32);
  const std::string data = "train = [\"a.shard\", \"b.shard\", \"c.shard\"]\npacking = \"stream\"\nshuffle = false\n";
  for (const char* name : {"straight", "resumed"}) {
    space_.write(std::string(name) + ".toml", config_text(name, data, 20));
    ASSERT_EQ(space_.run({"train", std::string(name) + ".toml", "--threads", "1"}).code, 0);
  }
  fs::remove_all(space_ / "runs/resumed/checkpoints/step-20");
  const nlohmann::json state = read_json(space_ / "runs/resumed/checkpoints/step-10/state.json");
  EXPECT_EQ(state["data"]["epoch"], 0);
  EXPECT_EQ(state["data"]["row"], kRowsAtTen);
  const Outcome again = space_.run({"train", "resumed.toml", "--threads", "1"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("resuming after step 10"), std::string::npos) << again.err;
  for (const char* file : {"model.safetensors", "optim.safetensors"})
    EXPECT_EQ(read_all(space_ / ("runs/resumed/checkpoints/step-20/" + std::string(file))),
              read_all(space_ / ("runs/straight/checkpoints/step-20/" + std::string(file))));
  EXPECT_GE(read_json(space_ / "runs/resumed/checkpoints/step-20/state.json")["data"]["epoch"], 1)
      << "and wraps at the end";
}

}  // namespace
}  // namespace ida::app_test

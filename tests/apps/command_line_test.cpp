// Names, help, and refusals of every command.
#include <gtest/gtest.h>

#include "program.h"

namespace ida::app_test {
namespace {

const std::vector<std::vector<std::string>> kCommands = {{"train"},
                                                         {"plan"},
                                                         {"data", "build"},
                                                         {"data", "inspect"},
                                                         {"tokenizer", "train"},
                                                         {"tokenizer", "encode"},
                                                         {"tokenizer", "decode"},
                                                         {"import"},
                                                         {"export"},
                                                         {"verify", "golden"},
                                                         {"verify", "checkpoint"},
                                                         {"verify", "export"},
                                                         {"eval", "ppl"},
                                                         {"generate"},
                                                         {"bench", "step"},
                                                         {"report"},
                                                         {"doctor"}};

TEST(CommandLine, EveryCommandHasHelp) {
  const Workspace space;
  for (std::vector<std::string> words : kCommands) {
    words.push_back("--help");
    const Outcome outcome = space.run(words);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.out.find("--threads"), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.err, "");
  }
  const Outcome golden = space.run({"verify", "golden", "--help"});
  EXPECT_NE(golden.out.find("1e-05"), std::string::npos) << "a default is missing: " << golden.out;
}

TEST(CommandLine, RootHelpNamesEveryCommand) {
  const Workspace space;
  const Outcome outcome = space.run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const std::vector<std::string>& words : kCommands)
    EXPECT_NE(outcome.out.find("  " + words.front() + " "), std::string::npos) << words.front();
}

TEST(CommandLine, TrainHelpListsSettings) {
  const Workspace space;
  const Outcome outcome = space.run({"train", "--help"});
  for (const char* setting :
       {"[run]", "\n  name ", "\n  num_key_value_heads ", "[optim]", "\n  betas ", "\n  recompute ", "\n  spike_sigma "})
    EXPECT_NE(outcome.out.find(setting), std::string::npos) << setting;
}

TEST(CommandLine, Version) {
  const Workspace space;
  const Outcome outcome = space.run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.find("ida-train "), 0u) << outcome.out;
}

TEST(CommandLine, UnknownWordsGetASuggestion) {
  const Workspace space;
  expect_refused(space.run({"trian", "c.toml"}), 2, {"unknown command 'trian'", "did you mean train?"});
  expect_refused(space.run({"verify", "goldn", "d"}), 2, {"unknown command 'goldn'", "did you mean golden?"});
  expect_refused(space.run({"verify", "golden", "d", "--rtoll", "1"}), 2, {"--rtoll", "did you mean --rtol?"});
  expect_refused(space.run({"eval", "ppl", "--modle=x"}), 2, {"unknown option --modle", "did you mean --model?"});
  expect_refused(space.run({"report", "a", "b"}), 2, {"unexpected argument 'b'"});
  expect_refused(space.run({}), 2, {"no command given", "train"});
  expect_refused(space.run({"data"}), 2, {"no command given", "build, inspect"});
}

TEST(CommandLine, MissingAndMalformedValues) {
  const Workspace space;
  expect_refused(space.run({"train"}), 2, {"CONFIG"});
  expect_refused(space.run({"generate", "--prompt", "x"}), 2, {"--model"});
  expect_refused(space.run({"verify", "golden", "d", "--dtype", "f16"}), 2, {"--dtype", "f16"});
  expect_refused(space.run({"verify", "golden", "d", "--rtol", "-1"}), 2, {"--rtol"});
  expect_refused(space.run({"doctor", "--threads", "many"}), 2, {"--threads", "many"});
  expect_refused(space.run({"eval", "ppl", "--model", "m", "--text", "t", "--window", "-3"}), 2, {"--window"});
}

TEST(CommandLine, MissingFilesAreUsageErrors) {
  const Workspace space;
  const std::string text = space.write("t.txt", "some text");
  const std::vector<std::vector<std::string>> calls = {
      {"train", "absent.toml"},
      {"plan", "absent.toml"},
      {"data", "build", "absent.txt", "--tokenizer", "t.txt", "--out", "a.shard"},
      {"data", "build", "t.txt", "--tokenizer", "absent.json", "--out", "a.shard"},
      {"data", "inspect", "absent.shard", "--tokenizer", "t.txt"},
      {"tokenizer", "train", "--vocab-size", "300", "--out", "tok", "absent.txt"},
      {"tokenizer", "encode", "--tokenizer", "absent.json", "x"},
      {"tokenizer", "decode", "--tokenizer", "absent.json", "1"},
      {"import", "absent", "out"},
      {"export", "absent", "out"},
      {"verify", "golden", "absent"},
      {"verify", "checkpoint", "absent"},
      {"verify", "export", "absent"},
      {"eval", "ppl", "--model", "absent", "--text", "t.txt"},
      {"eval", "ppl", "--model", ".", "--text", "absent.txt"},
      {"generate", "--model", "absent", "--prompt", "x"},
      {"report", "absent"}};
  for (const std::vector<std::string>& call : calls) expect_refused(space.run(call), 2, {"absent"});
  EXPECT_FALSE(exists(space / "out"));
}

TEST(CommandLine, DoctorSaysWhatIsThere) {
  const Workspace space;
  const Outcome outcome = space.run({"doctor", "--out", "d.json"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* word : {"device", "processor", "cores", "GiB usable", "isa", "oneDNN", "GPU", "fprop", "wgrad"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  const nlohmann::json figures = read_json(space / "d.json");
  EXPECT_EQ(figures["engines"]["bf16"].size(), 3u);
  EXPECT_GE(figures["cores"], 1);
  EXPECT_NE(outcome.out.find("GPU        " + figures["cuda"].get<std::string>()), std::string::npos);
}

TEST(CommandLine, DoctorNamesTheLibrariesOfTheGpuOrTheBuildWithoutThem) {
  const Workspace space;
  const std::string out = space.run({"doctor"}).out;
  if (!kHasCuda) {
    EXPECT_NE(out.find("GPU        none: this build has no CUDA backend; build with `make CUDA=1 build`"),
              std::string::npos);
    EXPECT_EQ(out.find("cuBLASLt"), std::string::npos);
    return;
  }
  for (const char* library : {"cuBLASLt", "cuDNN", "CUPTI"}) {
    const std::size_t line = out.find(library);
    ASSERT_NE(line, std::string::npos) << out;
    EXPECT_NE(out.substr(line, out.find('\n', line) - line).find("; without it: "), std::string::npos) << out;
  }
}

}  // namespace
}  // namespace ida::app_test

// Files as people write them: order of refusals, line numbers, syntax errors, hostile bytes.
#include <chrono>
#include <filesystem>
#include <fstream>

#include "config/support.h"

namespace ida::config {
namespace {

TEST(Load, MinimalFileIsComplete) {
  const RunConfig config = parse_run_config(kMinimal, "run.toml");
  EXPECT_EQ(config.run.name, "r");
  EXPECT_EQ(config.data.train, std::vector<std::string>{"a.txt"});
  EXPECT_EQ(total_steps(config), 1000);
  EXPECT_EQ(config.source_of("run.name"), Source::kFile);
  EXPECT_EQ(config.source_of("run.seed"), Source::kDefault);
  EXPECT_TRUE(parse_run_config(dump_resolved(config), "dump") == config);
  EXPECT_EQ(config_hash(parse_run_config(dump_resolved(config), "dump")), config_hash(config));
}

TEST(Load, IntegersAreNumbers) {
  const RunConfig config = read_run_config("[optim]\nlr = 1\nweight_decay = 0\nbetas = [0, 0.5]\n", "run.toml");
  EXPECT_EQ(config.optim.lr, 1.0);
  EXPECT_EQ(config.optim.betas, (std::array<double, 2>{0.0, 0.5}));
  EXPECT_EQ(read_run_config("[optim]\nlr = 3e-4\n", "run.toml").optim.lr, 3e-4);
}

TEST(Load, SpellingsOfANumberHashAlike) {
  const auto hash = [](const char* lr) { return config_hash(read_run_config(file_with("optim.lr", lr), "run.toml")); };
  EXPECT_EQ(hash("1"), hash("1.0"));
  EXPECT_EQ(hash("3e-4"), hash("0.0003"));
  EXPECT_NE(hash("3e-4"), hash("3.0000000000000003e-4"));
}

TEST(Load, AnyDoubleSurvivesTheDump) {
  for (const double lr : {1e-300, 4.9e-324, 0.1, 1.0 / 3.0, 1e22, 123456789012345680.0, 1.7976931348623157e308}) {
    RunConfig config;
    config.optim.lr = lr;
    EXPECT_EQ(read_run_config(dump_resolved(config), "dump").optim.lr, lr);
  }
}

TEST(Load, StringsSurviveTheDump) {
  RunConfig config;
  for (const char* text :
       {"\" quoted \\ back", "tab\tnew\nline\r\x7f\x01", "häß 漢字 🙂", "#no comment", "'''", "\"\"\""}) {
    config.train.sample_prompt = text;
    EXPECT_EQ(read_run_config(dump_resolved(config), "dump").train.sample_prompt, text);
  }
}

TEST(Load, FirstProblemByLineNotByAlphabet) {
  const std::string message = refused_read("[run]\nnmae = \"x\"\n[data]\nseq_len = \"long\"\n");
  EXPECT_EQ(message, "run.toml:2: unknown key run.nmae; did you mean run.name? (and 1 more problem)");
}

TEST(Load, LetterOutsideAsciiHasItsLine) {
  EXPECT_EQ(refused_read("[run]\nn\xC9\x91me = \"x\"\n"),
            "run.toml:2: a character outside ASCII; expected it within quotes or a comment");
  EXPECT_EQ(refused_read("[run]\nname = \xE2\x80\x9Cx\xE2\x80\x9D\n"),
            "run.toml:2: a character outside ASCII; expected it within quotes or a comment");
}

TEST(Load, UnknownAndWrongAreReportedBeforeMissing) {
  EXPECT_TRUE(contains(refused_parse("[optim]\nlr = \"fast\"\n"),
                       "run.toml:2: optim.lr: expected a number > 0, got the string \"fast\""));
  EXPECT_TRUE(
      contains(refused_parse("[train]\nstep = 3\n"), "run.toml:2: unknown key train.step; did you mean train.steps?"));
  EXPECT_TRUE(contains(refused_parse("", {"optim.lr=-1"}), "--set optim.lr=-1: optim.lr: expected a number > 0, got -1"));
  EXPECT_TRUE(contains(refused_parse("[train]\nsteps = 1\ntokens = 1\n"), "both set"));
}

TEST(Load, EverythingMissingInOneLine) {
  EXPECT_EQ(refused_parse(""),
            "run.toml: missing run.name; data.train; train.steps or train.tokens; a model (model.preset, model.path or "
            "model.hidden_size and the like)");
}

TEST(Load, UnknownSectionsAndKeysInTheWrongPlace) {
  EXPECT_TRUE(contains(refused_read("\n[modle]\nhidden_size = 3\n"), "run.toml:2: unknown key modle; did you mean model?"));
  EXPECT_TRUE(contains(refused_read("lr = 3e-4\n"), "run.toml:1: unknown key lr; did you mean optim.lr?"));
  EXPECT_TRUE(contains(refused_read("[train]\nlr = 3e-4\n"), "did you mean optim.lr?"));
  EXPECT_TRUE(contains(refused_read("[model]\nrope_scaling = { type = \"llama3\" }\n"),
                       "did you mean model.rope_scaling.rope_type?"));
  EXPECT_TRUE(
      contains(refused_read("[gates]\nabcdefghijklmnop = 1\n"), "known here: non_finite, spike_sigma, spike_action"));
  EXPECT_TRUE(contains(refused_read("optim = 3\n"), "run.toml:1: optim: expected a table [optim], got 3"));
  EXPECT_TRUE(contains(refused_read("[[optim]]\nlr = 1\n"), "expected a table [optim], got a list"));
}

TEST(Load, RopeScalingAsSubtableOrInline) {
  const RunConfig table = read_run_config("[model.rope_scaling]\nrope_type = \"llama3\"\nfactor = 8\n", "run.toml");
  const RunConfig inline_table =
      read_run_config("[model]\nrope_scaling = {rope_type = \"llama3\", factor = 8.0}\n", "run.toml");
  EXPECT_TRUE(table == inline_table);
  EXPECT_TRUE(table.model.rope_scaling.any());
  EXPECT_FALSE(RunConfig().model.rope_scaling.any());
}

TEST(Load, SyntaxErrorsHaveALine) {
  for (const char* text :
       {"[run]\nname = \"x\nseed = 1\n", "[run]\nname = \n", "[run]\nname = x\n", "[run]\nseed = 1__0\n",
        "[run]\nseed = 99999999999999999999\n", "[run]\nseed = 0.\n", "[run]\n= 3\n", "[run]\nname = \"\xff\xfe\"\n",
        "[run]\nname = \"a\x01\"\n", "[run]\nseed = 1 1\n", "[run]\n[=]\n", "\n[[[run]]]\n", "\n[[#]]\n[run]\n", "\n[=]"}) {
    EXPECT_TRUE(contains(refused_read(text), "run.toml:")) << text;
    EXPECT_TRUE(contains(refused_read(text), ":2: ") || contains(refused_read(text), ":3: ")) << refused_read(text);
  }
  EXPECT_TRUE(contains(refused_read("[run]\nseed = 1\nseed = 2\n"), "run.toml:3: "));
  EXPECT_TRUE(contains(refused_read("[run]\nseed = 1\n[run]\nseed = 2\n"), "run.toml:3: "));
}

TEST(Load, HostileInputIsRefusedQuickly) {
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t size = static_cast<std::size_t>(kMaxConfigBytes) - 16;
  std::string dots = "a";
  while (dots.size() < size) dots += ".a";
  std::string tables, quoted = "\"a\"";
  while (tables.size() < size) tables += "{a=";
  while (quoted.size() < size) quoted += ".\"a\"";
  const std::vector<std::string> texts = {std::string(size, '['),
                                          "a = " + std::string(size, '['),
                                          "a = " + tables,
                                          "[" + dots + "]",
                                          dots + " = 1",
                                          quoted + " = 1",
                                          "a = { " + dots + " = 1 }",
                                          std::string(size, ' ') + "x",
                                          std::string(size, '\0'),
                                          "a = \"" + std::string(size, 'x'),
                                          "[run]\nname = \"" + std::string(1, '\0') + "\"",
                                          std::string(size, '"'),
                                          std::string(size, '\''),
                                          "[run]\n\"" + std::string(4096, '\\') + "\" = 1",
                                          "[run]\n\"a\\nb\" = 1"};
  for (const std::string& text : texts) refused_read(text);
  EXPECT_TRUE(contains(refused_read(std::string(std::size_t{128} << 20, '[')), "too long"));
  EXPECT_TRUE(contains(refused_read("[run]\nname = \"a\\u0000b\"\n"), "NUL"));
  EXPECT_TRUE(contains(refused_read("[model]\npath = \"a\\u0000b\"\n"), "NUL"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Load, RunNameIsOneFolder) {
  for (const char* name : {"\".\"", "\"..\"", "\"a/b\"", "\"a\\nb\""}) {
    EXPECT_TRUE(contains(refused_read(file_with("run.name", name)), "run.toml:3: run.name: ")) << name;
  }
  EXPECT_TRUE(contains(refused_parse(kMinimal, {"run.name="}), "missing run.name"));
  EXPECT_EQ(read_run_config(file_with("run.name", "\"a b.c\""), "run.toml").run.name, "a b.c");
}

TEST(Load, DerivedValues) {
  EXPECT_EQ(read_run_config("[optim]\nname = \"lion\"\n", "t").optim.betas, (std::array<double, 2>{0.9, 0.99}));
  EXPECT_EQ(read_run_config("[optim]\nname = \"lion\"\nbetas = [0.9, 0.95]\n", "t").optim.betas,
            (std::array<double, 2>{0.9, 0.95}));
  EXPECT_EQ(read_run_config("[train]\nsteps = 50\n", "t").optim.warmup_steps, 5);
  EXPECT_EQ(read_run_config("[train]\nsteps = 5000\n", "t").optim.warmup_steps, 100);
  EXPECT_EQ(read_run_config("[train]\nsteps = 50\n[optim]\nwarmup_steps = 40\n", "t").optim.warmup_steps, 40);
  const RunConfig config = read_run_config("[train]\ntokens = 100001\nglobal_batch_tokens = 1000\n", "t");
  EXPECT_EQ(total_steps(config), 101);
  EXPECT_EQ(config.optim.warmup_steps, 10);
  EXPECT_EQ(config.source_of("optim.warmup_steps"), Source::kDerived);
  EXPECT_TRUE(contains(dump_resolved(config), "warmup_steps = 10  # derived\n"));
}

TEST(Load, MemoryLimit) {
  EXPECT_FALSE(memory_limit_bytes(RunConfig()).has_value());
  EXPECT_EQ(memory_limit_bytes(read_run_config("[device]\nmemory_limit = \"16GiB\"\n", "t")), std::int64_t{16} << 30);
  EXPECT_TRUE(contains(refused_read("\n[device]\nmemory_limit = \"lots\"\n"), "run.toml:3: device.memory_limit: "));
}

TEST(Load, FilesOnDisk) {
  const std::filesystem::path dir = std::filesystem::path(testing::TempDir()) / "ida_config_load";
  std::filesystem::create_directories(dir);
  const std::filesystem::path file = dir / "run.toml";
  std::ofstream(file) << kMinimal << "[optim]\nlr = 0\n";
  EXPECT_TRUE(contains(refused(ExitCode::kUsage, [&] { load_run_config(file); }), file.string() + ":10: optim.lr: "));
  std::ofstream(file) << kMinimal;
  EXPECT_EQ(load_run_config(file, std::vector<std::string>{"run.name=other"}).run.name, "other");
  EXPECT_TRUE(contains(refused(ExitCode::kUsage, [&] { load_run_config(dir / "absent.toml"); }), "no such file"));
  EXPECT_TRUE(contains(refused(ExitCode::kUsage, [&] { load_run_config(dir); }), "not a regular file"));
  std::ofstream(file) << std::string(static_cast<std::size_t>(kMaxConfigBytes) + 1, ' ');
  EXPECT_TRUE(contains(refused(ExitCode::kUsage, [&] { load_run_config(file); }), "too long"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace ida::config

// Contradictions, what is missing, and what this build cannot run.
#include <algorithm>

#include "config/recipes.h"
#include "config/support.h"

namespace ida::config {
namespace {

const std::string kSizes =
    "[run]\nname = \"r\"\n[data]\ntrain = [\"a.txt\"]\n[train]\nsteps = 1000\n[model]\nhidden_size = 64\n"
    "intermediate_size = 128\nnum_hidden_layers = 2\nnum_attention_heads = 4\n";

RunConfig minimal_with(const std::vector<std::string>& overrides) { return parse_run_config(kMinimal, "t", overrides); }
std::string refused_with(const std::vector<std::string>& overrides) { return refused_parse(kMinimal, overrides); }
std::string gated_with(const std::vector<std::string>& overrides) {
  return refused_parse(kMinimal, overrides, ExitCode::kGate);
}

TEST(Check, OneSourceOfTheModel) {
  EXPECT_TRUE(contains(refused_with({"model.path=hf"}), "model.preset and model.path are both set"));
  const std::string file = "[run]\nname = \"r\"\n[data]\ntrain = [\"a\"]\n[train]\nsteps = 1\n[model]\npath = \"hf\"\n";
  const RunConfig from_path = parse_run_config(file, "t");
  EXPECT_FALSE(from_path.model.model_type.has_value());
  EXPECT_FALSE(from_path.tokenizer.vocab_size.has_value());
  EXPECT_TRUE(contains(refused_parse(file, {"model.hidden_size=64"}), "model.hidden_size is set beside model.path"));
  EXPECT_TRUE(contains(refused_parse(file, {"model.rope_scaling.factor=2"}), "model.rope_scaling.factor is set beside"));
  EXPECT_TRUE(contains(refused_parse(file, {"tokenizer.vocab_size=300"}), "tokenizer.vocab_size trains a tokenizer"));
}

TEST(Check, SizesAreComplete) {
  EXPECT_TRUE(contains(refused_parse(kSizes), "missing tokenizer.path, tokenizer.vocab_size or model.vocab_size"));
  const RunConfig config = parse_run_config(kSizes, "t", std::vector<std::string>{"tokenizer.vocab_size=300"});
  EXPECT_EQ(config.model.vocab_size, 300);
  EXPECT_EQ(config.model.model_type, "llama");
  EXPECT_EQ(config.model.tie_word_embeddings, false);
  EXPECT_EQ(config.model.max_position_embeddings, config.data.seq_len);
  EXPECT_FALSE(config.model.num_key_value_heads.has_value());
  EXPECT_FALSE(parse_run_config(kSizes, "t", std::vector<std::string>{"tokenizer.path=x"}).model.vocab_size.has_value());
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    std::string text = kSizes;
    const std::size_t begin = text.find(key);
    text.erase(begin, text.find('\n', begin) + 1 - begin);
    EXPECT_EQ(refused_parse(text), std::string("run.toml: missing model.") + key);
  }
}

TEST(Check, RequiredSettingsOneByOne) {
  const std::pair<const char*, const char*> rows[] = {{"name = \"r\"\n", "run.toml: missing run.name"},
                                                      {"train = [\"a.txt\"]\n", "run.toml: missing data.train"},
                                                      {"steps = 1000\n", "run.toml: missing train.steps or train.tokens"},
                                                      {"preset = \"tiny\"\n", "run.toml: missing a model"}};
  for (const auto& [line, message] : rows) {
    std::string text = kMinimal;
    text.erase(text.find(line), std::string(line).size());
    EXPECT_TRUE(contains(refused_parse(text), message)) << refused_parse(text);
  }
  EXPECT_TRUE(contains(refused_with({"data.train=[]"}), "missing data.train"));
}

TEST(Check, Vocabulary) {
  EXPECT_EQ(minimal_with({}).tokenizer.vocab_size, 4096);
  EXPECT_TRUE(contains(refused_with({"tokenizer.vocab_size=512"}),
                       "model.vocab_size = 4096 of the preset and tokenizer.vocab_size = 512"));
  EXPECT_EQ(minimal_with({"tokenizer.vocab_size=512", "model.vocab_size=512"}).model.vocab_size, 512);
  EXPECT_TRUE(contains(refused_with({"model.vocab_size=100"}), "model.vocab_size = 100 without tokenizer.path"));
  EXPECT_FALSE(minimal_with({"tokenizer.path=x"}).tokenizer.vocab_size.has_value());
  EXPECT_TRUE(contains(refused_with({"tokenizer.path=x", "tokenizer.vocab_size=4096"}), "already names one"));
}

TEST(Check, Batches) {
  EXPECT_TRUE(contains(refused_with({"train.tokens=5"}), "train.steps and train.tokens are both set"));
  EXPECT_TRUE(contains(refused_with({"data.seq_len=1000"}), "the nearest below is 16000"));
  EXPECT_TRUE(contains(refused_with({"train.global_batch_tokens=512"}), "no multiple of data.seq_len = 1024"));
  EXPECT_TRUE(contains(refused_with({"train.micro_batch_sequences=3"}), "does not divide the 16 sequences"));
  EXPECT_TRUE(contains(refused_with({"train.micro_batch_sequences=32"}), "does not divide the 16 sequences"));
  EXPECT_EQ(minimal_with({"train.micro_batch_sequences=4"}).train.micro_batch_sequences, 4);
  EXPECT_TRUE(contains(refused_with({"parallel.data=3"}), "parallel.data = 3 does not divide"));
  EXPECT_TRUE(contains(refused_with({"parallel.data=8", "train.micro_batch_sequences=4"}), "the 2 sequences"));
  EXPECT_TRUE(contains(refused_with({"optim.warmup_steps=1001"}), "longer than the run of 1000 steps"));
  EXPECT_TRUE(contains(refused_with({"parallel.split=[1, 3]"}), "one entry per stage"));
  EXPECT_TRUE(contains(refused_with({"data.seq_len=4096"}), "longer than model.max_position_embeddings = 2048"));
  minimal_with({"data.seq_len=4096", "model.max_position_embeddings=4096"});
}

TEST(Check, Weights) {
  EXPECT_TRUE(contains(refused_with({"data.weights=[1, 2]"}), "data.weights has 2 entries and data.train 1"));
  EXPECT_TRUE(contains(refused_with({"data.weights=[0]"}), "all 0"));
  EXPECT_TRUE(contains(refused_with({"data.weights=[-1]"}), "expected a list of numbers >= 0, got -1"));
  EXPECT_TRUE(contains(refused_with({"data.weights=[inf]"}), "got inf"));
  EXPECT_TRUE(contains(refused_with({"data.weights=[1, \"a\"]"}), "got a list with the string \"a\""));
  EXPECT_EQ(minimal_with({"data.weights=[2]"}).data.weights, std::vector<double>{2.0});
}

TEST(Check, BadNumbersOfTheOptimizer) {
  for (const char* text : {"optim.lr=nan", "optim.lr=inf", "optim.lr=-1", "optim.lr=0", "optim.betas=[0.9]",
                           "optim.betas=[0.9, 1.0]", "optim.betas=[0.9, 0.95, 0.99]", "optim.betas=0.9", "optim.eps=-1e-8",
                           "optim.clip_norm=-1", "optim.weight_decay=nan", "optim.min_lr_ratio=1.5"}) {
    EXPECT_TRUE(contains(refused_with({text}), "expected a ")) << text;
  }
}

TEST(Check, RecipesThatAreNotThere) {
  for (const std::string_view recipe : kRecipes) {
    const std::vector<std::string> overrides = {fmt::format("precision.recipe={}", recipe)};
    if (std::ranges::find(kAvailableRecipes, recipe) != kAvailableRecipes.end()) {
      EXPECT_EQ(minimal_with(overrides).precision.recipe, recipe);
    } else {
      EXPECT_EQ(gated_with(overrides), fmt::format("precision.recipe = \"{}\" is not available in this build; available: "
                                                   "bf16, fp32",
                                                   recipe));
    }
  }
  EXPECT_TRUE(contains(refused_with({"precision.recipe=nvfp4_plane"}), "did you mean nvfp4_plain?"));
}

TEST(Check, OtherValuesThatAreNotThere) {
  EXPECT_TRUE(contains(gated_with({"precision.master=mxfp8"}), "available: fp32"));
  EXPECT_TRUE(contains(gated_with({"precision.grad_accum=bf16"}), "available: fp32"));
  EXPECT_TRUE(contains(gated_with({"parallel.data=2"}), "one device only"));
  EXPECT_TRUE(contains(gated_with({"parallel.pipeline=2"}), "one device only"));
  EXPECT_TRUE(contains(gated_with({"parallel.split=[4]"}), "one device only"));
  EXPECT_TRUE(
      contains(gated_with({"precision.override=[{match=\"lm_head\", format=\"bf16\"}]"}), "[[precision.override]]"));
  EXPECT_TRUE(contains(gated_with({"precision.phase=[{from=100, recipe=\"bf16\"}]"}), "[[precision.phase]]"));
  EXPECT_EQ(minimal_with({"precision.state=bf16"}).precision.state, StateFormat::kBf16);
}

TEST(Check, UsageBeforeGate) {
  EXPECT_TRUE(contains(refused_parse("[precision]\nrecipe = \"mxfp8\"\n"), "missing"));
  EXPECT_TRUE(contains(refused_with({"precision.recipe=mxfp8", "train.tokens=1"}), "both set"));
}

TEST(Check, PrecisionTables) {
  const std::string text =
      "[[precision.override]]\nmatch = \"lm_head\"\n[[precision.override]]\nmatch = \"layers.0-1.*\"\npass = \"wgrad\"\n"
      "operand = \"grad\"\nformat = \"mxfp8\"\nrounding = \"stochastic\"\ntransform = \"hadamard16\"\n"
      "prescale = \"power_of_two\"\n[[precision.phase]]\nfrom = 100\nrecipe = \"bf16\"\n[[precision.phase]]\n"
      "from = 0.5\nrecipe = \"fp32\"\n[[precision.phase]]\nwhen = \"gradient_noise\"\nrecipe = \"mxfp8\"\n";
  const RunConfig config = read_run_config(text, "t");
  ASSERT_EQ(config.precision.overrides.size(), 2u);
  EXPECT_FALSE(config.precision.overrides[0].format.has_value());
  EXPECT_EQ(config.precision.overrides[1].prescale, "power_of_two");
  ASSERT_EQ(config.precision.phases.size(), 3u);
  EXPECT_EQ(config.precision.phases[0].from, PhaseStart(std::int64_t{100}));
  EXPECT_EQ(config.precision.phases[1].from, PhaseStart(0.5));
  const RunConfig again = read_run_config(dump_resolved(config), "dump");
  EXPECT_TRUE(again == config) << dump_resolved(config);
  EXPECT_EQ(config_hash(again), config_hash(config));
  EXPECT_NE(config_hash(config), config_hash(RunConfig()));
  RunConfig other = config;
  other.precision.phases[0].from = PhaseStart(std::int64_t{101});
  EXPECT_NE(config_hash(other), config_hash(config));
}

TEST(Check, PrecisionTablesAreStrict) {
  EXPECT_TRUE(contains(refused_read("[[precision.override]]\nmatch = \"a\"\nformt = \"bf16\"\n"),
                       "run.toml:3: unknown key precision.override.formt; did you mean precision.override.format?"));
  EXPECT_TRUE(contains(refused_read("[[precision.override]]\npass = \"wgard\"\n"),
                       "run.toml:2: precision.override.pass: "
                       "expected one of fprop, dgrad, wgrad, "
                       "got \"wgard\"; did you mean wgrad?"));
  EXPECT_TRUE(contains(refused_read("[[precision.phase]]\nfrom = 1.5\n"), "got 1.5"));
  EXPECT_TRUE(contains(refused_read("[[precision.phase]]\nfrom = -1\n"), "got -1"));
  EXPECT_TRUE(contains(refused_read("[[precision.phase]]\nfrom = \"x\"\n"), "got the string \"x\""));
  EXPECT_TRUE(contains(refused_read("[precision.phase]\nfrom = 1\n"), "expected tables [[precision.phase]], got a table"));
  EXPECT_TRUE(contains(refused_read("[precision]\nphase = [1]\n"), "expected tables [[precision.phase]]"));
  EXPECT_TRUE(contains(refused_with({"precision.override=[{format=\"bf16\"}]"}),
                       "missing match of [[precision.override]] number 1"));
  EXPECT_TRUE(contains(refused_with({"precision.phase=[{from=1}]"}), "missing recipe of [[precision.phase]] number 1"));
  EXPECT_TRUE(contains(refused_with({"precision.phase=[{recipe=\"bf16\"}]"}), "expected one of from and when, got none"));
}

}  // namespace
}  // namespace ida::config

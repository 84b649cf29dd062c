// Every declared setting, by one loop each: a new row of the table is covered without a new test.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config/support.h"

namespace ida::config {
namespace {

// A legal value other than the default, as TOML.
struct OtherValue {
  const Setting& setting;

  double in_range(double wish, double present) const {
    double value = std::max(wish, setting.range.min);
    if (value == present) value = std::max(wish / 2, setting.range.min);
    if (value == present) value = setting.range.min + 1;
    return value;
  }
  std::string integer(std::int64_t present) const {
    const auto value = static_cast<std::int64_t>(in_range(7, static_cast<double>(present)));
    return fmt::format("{}", value);
  }
  std::string number(double present) const { return fmt::format("{:#}", in_range(0.5, present)); }
  std::string text(const std::string& present) const {
    for (const std::string_view choice : setting.choices) {
      if (choice != present) return quote_toml(choice);
    }
    const bool free = setting.refusal == nullptr || setting.refusal("q \"\\\t").empty();
    return free ? quote_toml("q \"\\\t") : setting.refusal("abc").empty() ? "\"abc\"" : "\"3GiB\"";
  }

  std::string operator()(const bool* value) const { return *value ? "false" : "true"; }
  std::string operator()(const std::int64_t* value) const { return integer(*value); }
  std::string operator()(const std::uint64_t* value) const { return integer(static_cast<std::int64_t>(*value)); }
  std::string operator()(const double* value) const { return number(*value); }
  std::string operator()(const std::string* value) const { return text(*value); }
  std::string operator()(const std::optional<bool>*) const { return "true"; }
  std::string operator()(const std::optional<std::int64_t>*) const { return integer(-1); }
  std::string operator()(const std::optional<double>*) const { return number(-1); }
  std::string operator()(const std::optional<std::string>*) const { return text(""); }
  std::string operator()(const std::optional<PhaseStart>*) const { return "0.5"; }
  std::string operator()(const std::array<double, 2>*) const { return "[0.5, 0.25]"; }
  std::string operator()(const std::vector<double>*) const { return "[0.5, 2.0]"; }
  std::string operator()(const std::vector<std::string>*) const { return "[\"a\", \"b c\"]"; }
  std::string operator()(const StageSplit*) const { return "[2, 3]"; }
  std::string operator()(const EnumRef& value) const { return quote_toml(value.names[*value.index == 0 ? 1 : 0]); }
};

std::string other_value(const Setting& setting) {
  RunSettings defaults;
  return std::visit(OtherValue{setting}, value_of(setting, defaults));
}

std::string value_text(const RunConfig& config, const Setting& setting) {
  RunSettings settings = config;
  return to_toml(value_of(setting, settings)).value_or("unset");
}

bool takes_string(const ValueRef& value) {
  return std::holds_alternative<std::string*>(value) || std::holds_alternative<std::optional<std::string>*>(value) ||
         std::holds_alternative<EnumRef>(value);
}
bool is_integer(const ValueRef& value) {
  return std::holds_alternative<std::int64_t*>(value) || std::holds_alternative<std::optional<std::int64_t>*>(value) ||
         std::holds_alternative<std::uint64_t*>(value);
}
bool is_real(const ValueRef& value) {
  return std::holds_alternative<double*>(value) || std::holds_alternative<std::optional<double>*>(value);
}
bool is_bool(const ValueRef& value) {
  return std::holds_alternative<bool*>(value) || std::holds_alternative<std::optional<bool>*>(value);
}

TEST(Setting, PathsAreUniqueAndSectionsKnownAndContiguous) {
  std::set<std::string_view> paths, finished;
  std::string_view section;
  for (const Setting& setting : all_settings()) {
    EXPECT_TRUE(paths.insert(setting.path).second) << setting.path;
    EXPECT_FALSE(setting.help.empty()) << setting.path;
    EXPECT_TRUE(is_section(section_of(setting.path))) << setting.path;
    if (section_of(setting.path) == section) continue;
    EXPECT_TRUE(finished.insert(section_of(setting.path)).second) << setting.path;
    section = section_of(setting.path);
  }
  EXPECT_EQ(finished.size(), all_sections().size());
}

// Two rows that point at the same member would each pass alone.
TEST(Setting, EverySettingHasItsOwnMember) {
  RunSettings settings;
  std::set<const void*> members;
  for (const Setting& setting : all_settings()) {
    const ValueRef value = value_of(setting, settings);
    const void* member = std::visit(
        [](const auto& ref) -> const void* {
          if constexpr (requires { ref.index; }) {
            return ref.index;
          } else {
            return ref;
          }
        },
        value);
    EXPECT_TRUE(members.insert(member).second) << setting.path;
  }
}

TEST(Setting, DefaultsAreLegal) {
  RunSettings defaults;
  for (const Setting& setting : all_settings()) {
    if (setting.required) continue;
    EXPECT_EQ(value_refusal(setting, value_of(setting, defaults)), "") << setting.path;
  }
}

TEST(Setting, RoundTripsThroughFileDumpAndOverride) {
  for (const Setting& setting : all_settings()) {
    const std::string value = other_value(setting);
    const RunConfig config = read_run_config(file_with(setting.path, value), "run.toml");
    EXPECT_EQ(value_text(config, setting), value) << setting.path;
    EXPECT_NE(value_text(config, setting), value_text(RunConfig(), setting)) << setting.path;
    EXPECT_EQ(config.source_of(setting.path), Source::kFile) << setting.path;

    const std::string dump = dump_resolved(config);
    EXPECT_TRUE(contains(dump, fmt::format("\n{} = {}  # file\n", leaf_of(setting.path), value))) << dump;
    EXPECT_TRUE(read_run_config(dump, "dump") == config) << setting.path << "\n" << dump;

    const std::string assignment = fmt::format("{}={}", setting.path, value);
    const RunConfig set = read_run_config("", "run.toml", std::vector<std::string>{assignment});
    EXPECT_TRUE(set == config) << assignment;
    EXPECT_EQ(set.source_of(setting.path), Source::kSet) << setting.path;
    EXPECT_TRUE(contains(dump_resolved(set), fmt::format("{} = {}  # set\n", leaf_of(setting.path), value)));
  }
}

TEST(Setting, EveryKeyStandsInTheDumpOnce) {
  const std::string dump = dump_resolved(RunConfig());
  for (const Setting& setting : all_settings()) {
    const std::size_t section = dump.find(fmt::format("[{}]\n", section_of(setting.path)));
    ASSERT_NE(section, std::string::npos) << setting.path;
    const std::string value = value_text(RunConfig(), setting);
    const std::string line = value == "unset" ? fmt::format("\n# {} is not set  # default\n", leaf_of(setting.path))
                                              : fmt::format("\n{} = {}  # default\n", leaf_of(setting.path), value);
    const std::size_t found = dump.find(line, section);
    ASSERT_NE(found, std::string::npos) << setting.path;
    EXPECT_EQ(dump.substr(section + 1, found - section).find("\n["), std::string::npos) << setting.path;
  }
}

TEST(Setting, HashChangesExactlyWithWhatAffectsResults) {
  const RunConfig base;
  std::set<std::string> hashes = {config_hash(base)};
  EXPECT_EQ(hashes.begin()->size(), 64u);
  for (const Setting& setting : all_settings()) {
    RunConfig changed;
    const RunConfig read = read_run_config(file_with(setting.path, other_value(setting)), "run.toml");
    // One member only: what the reader derives from it must not hide a row that the hash leaves out.
    std::visit(
        [&]<typename Member>(Member to) {
          RunConfig from = read;
          if constexpr (std::is_same_v<Member, EnumRef>) {
            *to.index = *std::get<EnumRef>(value_of(setting, from)).index;
          } else {
            *to = *std::get<Member>(value_of(setting, from));
          }
        },
        value_of(setting, changed));
    const bool is_new = hashes.insert(config_hash(changed)).second;
    EXPECT_EQ(is_new, setting.effect == Effect::kResults) << setting.path;
    if (setting.effect == Effect::kNone) {
      EXPECT_EQ(config_hash(changed), config_hash(base)) << setting.path;
    }
  }
}

TEST(Setting, HashLeavesOutNamesSavingPrintingAndThreads) {
  const std::set<std::string_view> expected = {"run.name",
                                               "run.dir",
                                               "train.recompute",
                                               "train.eval_every",
                                               "train.save_every",
                                               "train.keep_last",
                                               "train.keep_every",
                                               "train.keep_best",
                                               "train.sample_every",
                                               "train.sample_prompt",
                                               "train.sample_tokens",
                                               "train.log_every",
                                               "parallel.pipeline",
                                               "parallel.split",
                                               "parallel.schedule",
                                               "parallel.transport",
                                               "device.threads",
                                               "evidence.probe",
                                               "evidence.kernels"};
  std::set<std::string_view> found;
  for (const Setting& setting : all_settings()) {
    if (setting.effect == Effect::kNone) found.insert(setting.path);
  }
  EXPECT_EQ(found, expected);
}

TEST(Setting, WrongTypesAreRefusedOnTheirLine) {
  RunSettings defaults;
  for (const Setting& setting : all_settings()) {
    const ValueRef value = value_of(setting, defaults);
    std::vector<std::string> wrong = {"{}", "1979-05-27", "[[]]", "[{}]"};
    if (!takes_string(value) && !std::holds_alternative<StageSplit*>(value)) wrong.push_back("\"auto\"");
    if (takes_string(value)) wrong.insert(wrong.end(), {"3", "0.5", "true", "[\"a\"]"});
    if (is_integer(value)) wrong.insert(wrong.end(), {"\"3\"", "1.5", "3.0", "true", "[3]", "nan"});
    if (is_real(value)) wrong.insert(wrong.end(), {"\"3e-4\"", "true", "[0.5]", "nan", "inf", "-inf"});
    if (is_bool(value)) wrong.insert(wrong.end(), {"\"true\"", "1", "0", "[true]"});
    for (const std::string& text : wrong) {
      const std::string message = refused_read(file_with(setting.path, text));
      EXPECT_TRUE(contains(message, fmt::format("run.toml:3: {}: expected ", setting.path))) << text << ": " << message;
      EXPECT_TRUE(contains(message, ", got ")) << message;
    }
  }
}

TEST(Setting, ValuesOutsideTheRangeAreRefused) {
  RunSettings defaults;
  int bounds = 0;
  for (const Setting& setting : all_settings()) {
    const ValueRef value = value_of(setting, defaults);
    if (!is_integer(value) && !is_real(value)) continue;
    const auto text = [&](double number) {
      return is_integer(value) ? fmt::format("{}", static_cast<std::int64_t>(number)) : fmt::format("{:#}", number);
    };
    const auto expect_refused = [&](double number) {
      const std::string message = refused_read(file_with(setting.path, text(number)));
      EXPECT_TRUE(contains(message, fmt::format("run.toml:3: {}: expected ", setting.path))) << message;
      EXPECT_TRUE(contains(message, "got " + text(number))) << message;
      ++bounds;
    };
    ASSERT_TRUE(std::isfinite(setting.range.min)) << setting.path;
    expect_refused(setting.range.min_excluded ? setting.range.min : setting.range.min - 1);
    if (std::isfinite(setting.range.max))
      expect_refused(setting.range.max_excluded ? setting.range.max : setting.range.max + 1);
    if (!setting.range.min_excluded) read_run_config(file_with(setting.path, text(setting.range.min)), "run.toml");
  }
  EXPECT_GT(bounds, 60);
}

TEST(Setting, WordsOutsideTheListAreRefusedWithASuggestion) {
  RunSettings defaults;
  int lists = 0;
  for (const Setting& setting : all_settings()) {
    const ValueRef value = value_of(setting, defaults);
    const EnumRef* names = std::get_if<EnumRef>(&value);
    const auto choices = names != nullptr ? names->names : setting.choices;
    if (choices.empty()) continue;
    ++lists;
    for (const std::string_view choice : choices) {
      const std::string message = refused_read(file_with(setting.path, quote_toml(std::string(choice) + "_")));
      EXPECT_TRUE(contains(message, fmt::format("run.toml:3: {}: expected one of ", setting.path))) << message;
      EXPECT_TRUE(contains(message, fmt::format("did you mean {}?", choice))) << message;
      EXPECT_EQ(value_text(read_run_config(file_with(setting.path, quote_toml(choice)), "run.toml"), setting),
                quote_toml(choice));
    }
    refused_read(file_with(setting.path, "\"\""));
  }
  EXPECT_GE(lists, 20);
}

TEST(Setting, MisspeltKeysAreRefusedWithASuggestion) {
  for (const Setting& setting : all_settings()) {
    const std::string wrong = std::string(setting.path) + "_";
    const std::string message = refused_read(file_with(wrong, other_value(setting)));
    EXPECT_TRUE(contains(message, fmt::format("run.toml:3: unknown key {}; did you mean ", wrong))) << message;
    EXPECT_TRUE(contains(message, fmt::format("did you mean {}?", setting.path))) << message;
    const std::string set = refused_read("", {wrong + "=1"});
    EXPECT_TRUE(contains(set, fmt::format("did you mean {}?", setting.path))) << set;
  }
}

TEST(Setting, HelpShowsEverySettingWithItsDefault) {
  const std::string help = settings_help();
  for (const Setting& setting : all_settings()) {
    const std::size_t section = help.find(fmt::format("[{}]  ", section_of(setting.path)));
    ASSERT_NE(section, std::string::npos) << setting.path;
    const std::size_t begin = help.find(fmt::format("\n  {} ", leaf_of(setting.path)), section);
    ASSERT_NE(begin, std::string::npos) << setting.path;
    const std::string line = help.substr(begin + 1, help.find('\n', begin + 1) - begin - 1);
    const std::string value = value_text(RunConfig(), setting);
    EXPECT_TRUE(contains(line, setting.required ? "required" : value == "unset" ? "not set" : "default " + value)) << line;
    EXPECT_TRUE(contains(line, setting.help)) << line;
    EXPECT_TRUE(contains(line, setting.unit)) << line;
    EXPECT_TRUE(contains(line, expected_text(setting))) << line;
  }
}

// The contract, written a second time on purpose: a changed default must be a decision.
TEST(Setting, DefaultsOfTheContract) {
  const std::pair<const char*, const char*> expected[] = {
      {"run.dir", "\"runs\""},
      {"run.seed", "42"},
      {"data.seq_len", "1024"},
      {"data.packing", "\"documents\""},
      {"data.mask", "\"all\""},
      {"data.shuffle", "true"},
      {"data.long_documents", "\"split\""},
      {"optim.name", "\"adamw\""},
      {"optim.betas", "[0.9, 0.95]"},
      {"optim.schedule", "\"wsd\""},
      {"optim.decay", "\"matrices\""},
      {"train.micro_batch_sequences", "0"},
      {"train.recompute", "\"none\""},
      {"precision.recipe", "\"bf16\""},
      {"precision.master", "\"fp32\""},
      {"precision.state", "\"fp32\""},
      {"precision.grad_accum", "\"fp32\""},
      {"precision.backward_scale", "\"micro_batch_mean\""},
      {"parallel.data", "1"},
      {"parallel.pipeline", "1"},
      {"parallel.split", "\"auto\""},
      {"parallel.schedule", "\"1f1b\""},
      {"parallel.transport", "\"auto\""},
      {"device.backend", "\"auto\""},
      {"device.memory_limit", "\"\""},
      {"device.deterministic", "false"},
      {"device.graphs", "true"},
      {"device.threads", "0"},
      {"evidence.engine", "\"either\""},
      {"evidence.on_fallback", "\"error\""},
      {"evidence.probe", "\"auto\""},
      {"evidence.kernels", "\"window\""},
      {"gates.non_finite", "\"skip\""},
      {"gates.spike_sigma", "6.0"},
      {"gates.spike_action", "\"skip\""},
  };
  for (const auto& [path, value] : expected) {
    const Setting* setting = find_setting(path);
    ASSERT_NE(setting, nullptr) << path;
    EXPECT_EQ(value_text(RunConfig(), *setting), value) << path;
  }
}

}  // namespace
}  // namespace ida::config

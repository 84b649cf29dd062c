// A setting as data: one declaration drives reading, `--set`, help, the resolved dump, validation and the hash.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/run_config.h"

namespace ida::config {

// An enum member seen without its type.
struct EnumRef {
  std::uint8_t* index;
  std::span<const std::string_view> names;
};

// The member that holds a setting; its type is the setting's type.
using ValueRef = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*, std::optional<bool>*,
                              std::optional<std::int64_t>*, std::optional<double>*, std::optional<std::string>*,
                              std::optional<PhaseStart>*, std::array<double, 2>*, std::vector<double>*,
                              std::vector<std::string>*, StageSplit*, EnumRef>;

// Bounds of a number, or of every number of a list.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  bool max_excluded = false;
};

// Whether a setting can change the weights a run ends with or the losses it reports. kNone only where equality is
// promised bit by bit or the setting is about names, saving and printing.
enum class Effect : std::uint8_t { kResults, kNone };

struct Setting {
  std::string_view path;         // "optim.lr"; of a table list: the key alone
  ValueRef (*ref)(void* owner);  // owner: a RunSettings, or one element of the table list
  std::string_view help;
  std::string_view unit = "";
  Range range = {};
  std::span<const std::string_view> choices = {};             // of a string
  std::span<const std::string_view> implemented = {};         // subset of the values; empty: all
  std::string (*refusal)(const std::string& text) = nullptr;  // of a string: why it is refused, or ""
  Effect effect = Effect::kResults;
  bool required = false;
};

// An array of tables, `[[precision.override]]`.
struct TableList {
  std::string_view path;
  std::string_view help;
  std::span<const Setting> fields;
  std::size_t (*size)(const RunSettings& settings);
  void (*resize)(RunSettings& settings, std::size_t count);
  void* (*element)(RunSettings& settings, std::size_t index);
};

struct Section {
  std::string_view name;
  std::string_view help;
};

// In the order of help and dump: settings of one section follow each other.
std::span<const Setting> all_settings();
std::span<const TableList> all_table_lists();
std::span<const Section> all_sections();

// nullptr where there is none of that path.
const Setting* find_setting(std::string_view path);
const TableList* find_table_list(std::string_view path);
bool is_section(std::string_view path);

// "optim.lr" -> "optim"; "model.rope_scaling.factor" -> "model.rope_scaling".
std::string_view section_of(std::string_view path);

ValueRef value_of(const Setting& setting, RunSettings& settings);

// The value as TOML text on one line; nothing where an optional is not set.
std::optional<std::string> to_toml(const ValueRef& value);
std::string quote_toml(std::string_view text);

// "integer >= 1", "one of adamw, lion", "list of strings".
std::string expected_text(const Setting& setting);

// Why the present value breaks the declaration (range, choices, own syntax, NUL), or "".
std::string value_refusal(const Setting& setting, const ValueRef& value);

// Text without line breaks and control characters, at most 80 bytes, for messages.
std::string printable(std::string_view text);

}  // namespace ida::config

// Dump, hash and help: three readings of the declarations.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/sha256.h"
#include "config/load.h"
#include "config/setting.h"

namespace ida::config {
namespace {

constexpr std::array<std::string_view, 4> kSourceNames = {"default", "file", "set", "derived"};

std::string_view leaf_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string dump_line(std::string_view key, const std::optional<std::string>& value, Source source) {
  const std::string_view name = kSourceNames[static_cast<std::size_t>(source)];
  return value ? fmt::format("{} = {}  # {}\n", key, *value, name) : fmt::format("# {} is not set  # {}\n", key, name);
}

std::string default_text(const Setting& setting) {
  RunSettings defaults;
  if (setting.required) return "required";
  const std::optional<std::string> value = to_toml(value_of(setting, defaults));
  return value ? "default " + *value : "not set";
}

std::string help_line(std::string_view key, const Setting& setting, const std::string& value) {
  const std::string unit = setting.unit.empty() ? "" : fmt::format(" ({})", setting.unit);
  return fmt::format("  {:<26} {}{}; {}; {}\n", key, expected_text(setting), unit, value, setting.help);
}

}  // namespace

std::string dump_resolved(const RunConfig& config) {
  RunSettings settings = config;
  std::string text = fmt::format(
      "# Resolved configuration: every key, its value, and where the value came from.\n# sha256 {}\n", config_hash(config));
  std::string_view section;
  for (const Setting& setting : all_settings()) {
    if (section_of(setting.path) != section) {
      section = section_of(setting.path);
      text += fmt::format("\n[{}]\n", section);
    }
    text += dump_line(leaf_of(setting.path), to_toml(value_of(setting, settings)), config.source_of(setting.path));
  }
  for (const TableList& list : all_table_lists()) {
    if (list.size(settings) == 0) text += fmt::format("\n# [[{}]] is empty  # default\n", list.path);
    for (std::size_t i = 0; i < list.size(settings); ++i) {
      text += fmt::format("\n[[{}]]\n", list.path);
      for (const Setting& field : list.fields) {
        const std::optional<std::string> value = to_toml(field.ref(list.element(settings, i)));
        text += dump_line(field.path, value, value ? config.source_of(list.path) : Source::kDefault);
      }
    }
  }
  return text;
}

std::string config_hash(const RunConfig& config) {
  RunSettings settings = config;
  std::vector<std::string> lines;
  const auto add = [&](const std::string& path, const ValueRef& value) {
    lines.push_back(fmt::format("{} = {}\n", path, to_toml(value).value_or("unset")));
  };
  for (const Setting& setting : all_settings()) {
    if (setting.effect == Effect::kResults) add(std::string(setting.path), value_of(setting, settings));
  }
  for (const TableList& list : all_table_lists()) {
    for (std::size_t i = 0; i < list.size(settings); ++i) {
      for (const Setting& field : list.fields) {
        add(fmt::format("{}[{}].{}", list.path, i, field.path), field.ref(list.element(settings, i)));
      }
    }
  }
  std::ranges::sort(lines);
  Sha256 hash;
  for (const std::string& line : lines) hash.update(line);
  return hash.hex();
}

std::string settings_help() {
  std::string text;
  std::string_view section;
  for (const Setting& setting : all_settings()) {
    if (section_of(setting.path) != section) {
      section = section_of(setting.path);
      const auto row = std::ranges::find(all_sections(), section, &Section::name);
      text += fmt::format("{}[{}]  {}\n", text.empty() ? "" : "\n", section, row->help);
    }
    text += help_line(leaf_of(setting.path), setting, default_text(setting));
  }
  for (const TableList& list : all_table_lists()) {
    text += fmt::format("\n[[{}]]  {}\n", list.path, list.help);
    for (const Setting& field : list.fields) text += help_line(field.path, field, field.required ? "required" : "not set");
  }
  return text;
}

}  // namespace ida::config

#include "config/toml_reader.h"

// toml++ 3.3 runs into an assertion where a table header holds no key ("[=]", "[[["), and would assume the condition away
// under NDEBUG. Here a broken assertion is one more syntax error. This is the one unit that includes toml++.
#undef NDEBUG
namespace ida::config {
struct BrokenSyntax {};
[[noreturn]] void refuse_syntax() { throw BrokenSyntax(); }
}  // namespace ida::config
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : ida::config::refuse_syntax())
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>

#include "base/error.h"
#include "config/setting.h"
#include "config/suggest.h"
#include "config/toml_guard.h"

namespace ida::config {
namespace {

std::string describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return fmt::format("the string {}", printable(quote_toml(text->get())));
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  return "a date or time";
}

// Assigns a node to a member of the same type: true where the type fits.
bool assign(const toml::node& node, bool& out) {
  const auto* value = node.as_boolean();
  if (value != nullptr) out = value->get();
  return value != nullptr;
}
bool assign(const toml::node& node, std::int64_t& out) {
  const auto* value = node.as_integer();
  if (value != nullptr) out = value->get();
  return value != nullptr;
}
bool assign(const toml::node& node, std::uint64_t& out) {
  std::int64_t value = 0;
  if (!assign(node, value) || value < 0) return false;
  out = static_cast<std::uint64_t>(value);
  return true;
}
bool assign(const toml::node& node, double& out) {
  std::int64_t integer = 0;
  if (assign(node, integer)) {
    out = static_cast<double>(integer);
    return true;
  }
  const auto* value = node.as_floating_point();
  if (value != nullptr) out = value->get();
  return value != nullptr;
}
bool assign(const toml::node& node, std::string& out) {
  const auto* value = node.as_string();
  if (value != nullptr) out = value->get();
  return value != nullptr;
}
bool assign(const toml::node& node, PhaseStart& out) {
  std::int64_t step = 0;
  double fraction = 0;
  if (assign(node, step)) {
    out = step;
  } else if (assign(node, fraction)) {
    out = fraction;
  } else {
    return false;
  }
  return true;
}
template <typename T>
bool assign(const toml::node& node, std::vector<T>& out) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return false;
  std::vector<T> values(list->size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!assign((*list)[i], values[i])) return false;
  }
  out = std::move(values);
  return true;
}
bool assign(const toml::node& node, std::array<double, 2>& out) {
  std::vector<double> values;
  if (!assign(node, values) || values.size() != out.size()) return false;
  std::ranges::copy(values, out.begin());
  return true;
}
bool assign(const toml::node& node, StageSplit& out) {
  std::string text;
  if (!assign(node, text)) return assign(node, out.layers) && !out.layers.empty();
  out.layers.clear();
  return text == "auto";
}
template <typename T>
bool assign(const toml::node& node, std::optional<T>& out) {
  return assign(node, out.emplace());
}
bool assign(const toml::node& node, const EnumRef& out) {
  std::string text;
  if (!assign(node, text)) return false;
  const auto found = std::ranges::find(out.names, text);
  if (found == out.names.end()) return false;
  *out.index = static_cast<std::uint8_t>(found - out.names.begin());
  return true;
}

struct Assign {
  const toml::node& node;
  template <typename T>
  bool operator()(T* member) const {
    return assign(node, *member);
  }
  bool operator()(const EnumRef& member) const { return assign(node, member); }
};

// What a node of the wrong type holds; inside a list, its first element that no element of the setting can be.
std::string got_text(const toml::node& node, const ValueRef& value) {
  if (const auto* names = std::get_if<EnumRef>(&value); names != nullptr && node.is_string()) {
    const std::string& text = node.as_string()->get();
    return fmt::format("got {}{}", printable(quote_toml(text)), did_you_mean(nearest(text, names->names)));
  }
  const toml::array* list = node.as_array();
  if (list == nullptr) return "got " + describe(node);
  const bool of_strings = std::holds_alternative<std::vector<std::string>*>(value);
  for (const toml::node& item : *list) {
    if (of_strings ? !item.is_string() : !item.is_number()) return "got a list with " + describe(item);
  }
  return fmt::format("got a list of {}", list->size());
}

struct Problem {
  std::int64_t line;
  std::string text;
};

class Reader {
 public:
  Reader(Source source, RunConfig& config) : source_(source), config_(config) {}

  // `section` "" is the top of the file.
  void read_table(const std::string& section, const toml::table& table) {
    for (const auto& [key, node] : table) {
      const std::string path = section.empty() ? std::string(key.str()) : fmt::format("{}.{}", section, key.str());
      read_node(path, node, static_cast<std::int64_t>(key.source().begin.line));
    }
  }

  void read_node(const std::string& path, const toml::node& node, std::int64_t key_line) {
    if (const Setting* setting = find_setting(path)) {
      if (read_setting(*setting, setting->ref(static_cast<RunSettings*>(&config_)), node, path)) {
        config_.sources[path] = source_;
      }
    } else if (is_section(path)) {
      const toml::table* table = node.as_table();
      if (table != nullptr) return read_table(path, *table);
      add(node, fmt::format("{}: expected a table [{}], got {}", path, path, describe(node)));
    } else if (const TableList* list = find_table_list(path)) {
      read_table_list(*list, node);
    } else {
      add_unknown(path, key_line);
    }
  }

  const std::vector<Problem>& problems() const { return problems_; }

 private:
  void add(const toml::node& node, std::string text) {
    problems_.push_back({static_cast<std::int64_t>(node.source().begin.line), std::move(text)});
  }

  void add_unknown(const std::string& path, std::int64_t line) {
    problems_.push_back({line, fmt::format("unknown key {}{}", printable(path), key_hint(path))});
  }

  bool read_setting(const Setting& setting, const ValueRef& value, const toml::node& node, const std::string& path) {
    std::string why;
    if (!std::visit(Assign{node}, value)) {
      why = got_text(node, value);
    } else {
      why = value_refusal(setting, value);
    }
    if (!why.empty()) add(node, fmt::format("{}: expected {}, {}", path, expected_text(setting), why));
    return why.empty();
  }

  void read_table_list(const TableList& list, const toml::node& node) {
    const toml::array* rows = node.as_array();
    const bool tables = rows != nullptr && std::ranges::all_of(*rows, [](const toml::node& row) { return row.is_table(); });
    if (!tables) {
      add(node, fmt::format("{}: expected tables [[{}]], got {}", list.path, list.path,
                            rows == nullptr ? describe(node) : "a list with other values"));
      return;
    }
    list.resize(config_, 0);
    list.resize(config_, rows->size());
    for (std::size_t i = 0; i < rows->size(); ++i) {
      void* owner = list.element(config_, i);
      for (const auto& [key, value] : *(*rows)[i].as_table()) {
        const auto field = std::ranges::find(list.fields, key.str(), &Setting::path);
        const std::string path = fmt::format("{}.{}", list.path, key.str());
        if (field == list.fields.end()) {
          add_unknown(path, static_cast<std::int64_t>(key.source().begin.line));
        } else {
          read_setting(*field, field->ref(owner), value, path);
        }
      }
    }
    config_.sources[std::string(list.path)] = source_;
  }

  Source source_;
  RunConfig& config_;
  std::vector<Problem> problems_;
};

struct SyntaxError {
  std::int64_t line;
  std::string text;
};

// Whether parsing the first `size` bytes ends in a broken assertion.
bool breaks(std::string_view text, std::size_t size) {
  try {
    static_cast<void>(toml::parse(text.substr(0, size)));
  } catch (const BrokenSyntax&) {
    return true;
  } catch (const toml::parse_error&) {
  }
  return false;
}

// The line whose text breaks the parser: the shortest run of leading lines that does.
std::int64_t line_that_breaks(std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ends.push_back(i + 1);
  }
  const auto first = std::ranges::partition_point(ends, [&](std::size_t end) { return !breaks(text, end); });
  return first - ends.begin() + 1;
}

toml::table parse_toml(std::string_view text) {
  if (const auto refusal = toml_refusal(text)) throw SyntaxError{refusal->line, std::string(refusal->text)};
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw SyntaxError{static_cast<std::int64_t>(error.source().begin.line), printable(error.description())};
  } catch (const BrokenSyntax&) {
    throw SyntaxError{line_that_breaks(text), "expected the name of a table after ["};
  }
}

bool takes_text(const ValueRef& value) {
  return std::holds_alternative<std::string*>(value) || std::holds_alternative<std::optional<std::string>*>(value);
}

// The node of "value = ..." that `--set` text stands for: TOML, or plain text where the setting takes a word.
toml::table parse_override_value(const std::string& path, const std::string& text, RunConfig& config) {
  const Setting* setting = find_setting(path);
  bool bare_allowed = false, must_be_text = false;
  if (setting != nullptr) {
    const ValueRef value = value_of(*setting, config);
    must_be_text = takes_text(value);
    bare_allowed = must_be_text || std::holds_alternative<EnumRef>(value) || std::holds_alternative<StageSplit*>(value);
  }
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const auto bare = [&] { return parse_toml("value = " + quote_toml(text)); };
  try {
    toml::table parsed = parse_toml("value = " + text);
    if (parsed.size() != 1) fail_usage("--set {}: expected one value, got several lines", printable(path));
    return must_be_text && !parsed.begin()->second.is_string() ? bare() : std::move(parsed);
  } catch (const SyntaxError& error) {
    if (bare_allowed && !quoted) return bare();
    fail_usage("--set {}={}: {} is no TOML value: {}{}", path, printable(text), text.empty() ? "nothing" : printable(text),
               error.text, setting == nullptr ? "" : "; expected " + expected_text(*setting));
  }
}

}  // namespace

void read_file_text(std::string_view toml_text, std::string_view origin, RunConfig& config) {
  toml::table document;
  try {
    document = parse_toml(toml_text);
  } catch (const SyntaxError& error) {
    fail_usage("{}:{}: {}", origin, error.line, error.text);
  }
  Reader reader(Source::kFile, config);
  reader.read_table("", document);
  if (reader.problems().empty()) return;
  const Problem& first = *std::ranges::min_element(reader.problems(), {}, &Problem::line);
  const std::size_t others = reader.problems().size() - 1;
  fail_usage("{}:{}: {}{}", origin, first.line, first.text,
             others == 0 ? "" : fmt::format(" (and {} more problem{})", others, others == 1 ? "" : "s"));
}

void read_override(std::string_view text, RunConfig& config) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    fail_usage("--set {}: expected section.key=value", printable(text));
  }
  std::string_view path = text.substr(0, equals);
  while (path.ends_with(' ')) path.remove_suffix(1);
  while (path.starts_with(' ')) path.remove_prefix(1);
  std::string_view value = text.substr(equals + 1);
  const std::string key(path);
  if (find_setting(key) == nullptr && !is_section(key) && find_table_list(key) == nullptr) {
    fail_usage("--set {}: unknown key {}{}", printable(text), printable(key), key_hint(key));
  }
  try {
    const toml::table document = parse_override_value(key, std::string(value), config);
    Reader reader(Source::kSet, config);
    reader.read_node(key, document.begin()->second, 1);
    if (!reader.problems().empty()) fail_usage("--set {}: {}", printable(text), reader.problems().front().text);
  } catch (const SyntaxError& error) {
    fail_usage("--set {}: {}", printable(text), error.text);
  }
}

}  // namespace ida::config

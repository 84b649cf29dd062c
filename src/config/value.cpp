// A setting's value as text, and the checks its declaration asks for.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "config/setting.h"
#include "config/suggest.h"

namespace ida::config {
namespace {

std::string scalar_toml(bool value) { return value ? "true" : "false"; }
std::string scalar_toml(std::int64_t value) { return fmt::format("{}", value); }
std::string scalar_toml(const std::string& value) { return quote_toml(value); }
std::string scalar_toml(double value) {
  std::string text = fmt::format("{}", value);  // shortest text that reads back to the same double
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}
std::string scalar_toml(const PhaseStart& value) {
  return std::visit([](auto start) { return scalar_toml(start); }, value);
}

template <typename List>
std::string list_toml(const List& list) {
  std::string text = "[";
  for (const auto& item : list) text += (text.size() > 1 ? ", " : "") + scalar_toml(item);
  return text + "]";
}

struct ToToml {
  using Text = std::optional<std::string>;
  template <typename T>
  Text operator()(const T* value) const {
    return scalar_toml(*value);
  }
  template <typename T>
  Text operator()(const std::optional<T>* value) const {
    return *value ? Text(scalar_toml(**value)) : Text();
  }
  Text operator()(const std::uint64_t* value) const { return fmt::format("{}", *value); }
  Text operator()(const std::array<double, 2>* value) const { return list_toml(*value); }
  template <typename T>
  Text operator()(const std::vector<T>* value) const {
    return list_toml(*value);
  }
  Text operator()(const StageSplit* value) const {
    return value->layers.empty() ? quote_toml("auto") : list_toml(value->layers);
  }
  Text operator()(const EnumRef& value) const { return quote_toml(value.names[*value.index]); }
};

std::string range_text(const Range& range) {
  std::string text;
  if (std::isfinite(range.min)) text += fmt::format(" {} {}", range.min_excluded ? ">" : ">=", range.min);
  if (range.max < 1e15)
    text += fmt::format("{} {} {}", text.empty() ? "" : ",", range.max_excluded ? "<" : "<=", range.max);
  return text;
}

std::string choices_text(std::span<const std::string_view> names) {
  return fmt::format("one of {}", fmt::join(names.begin(), names.end(), ", "));
}

struct TypeText {
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::int64_t*) const { return "an integer"; }
  std::string operator()(const std::uint64_t*) const { return "an integer"; }
  std::string operator()(const double*) const { return "a number"; }
  std::string operator()(const std::string*) const { return "a string"; }
  template <typename T>
  std::string operator()(const std::optional<T>*) const {
    return (*this)(static_cast<const T*>(nullptr));
  }
  std::string operator()(const PhaseStart*) const { return "a step (integer) or a part of the run (float up to 1)"; }
  std::string operator()(const std::array<double, 2>*) const { return "a list of 2 numbers"; }
  std::string operator()(const std::vector<double>*) const { return "a list of numbers"; }
  std::string operator()(const std::vector<std::string>*) const { return "a list of strings"; }
  std::string operator()(const StageSplit*) const { return "\"auto\" or a list of integers"; }
  std::string operator()(const EnumRef& value) const { return choices_text(value.names); }
};

std::string number_refusal(double value, const Range& range, const std::string& text) {
  if (!std::isfinite(value)) return fmt::format("got {}", text);
  const bool low = range.min_excluded ? value <= range.min : value < range.min;
  const bool high = range.max_excluded ? value >= range.max : value > range.max;
  return low || high ? fmt::format("got {}", text) : "";
}

std::string text_refusal(const Setting& setting, const std::string& text) {
  if (text.find('\0') != std::string::npos) return "got a string with a NUL byte";
  if (!setting.choices.empty() && std::ranges::find(setting.choices, text) == setting.choices.end()) {
    return fmt::format("got {}{}", printable(quote_toml(text)), did_you_mean(nearest(text, setting.choices)));
  }
  if (setting.refusal == nullptr) return "";
  const std::string why = setting.refusal(text);
  return why.empty() ? "" : fmt::format("got {}, which {}", printable(quote_toml(text)), why);
}

// What is wrong with a value, as "got ...", or "".
struct Refusal {
  const Setting& setting;

  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const EnumRef&) const { return ""; }
  std::string operator()(const std::uint64_t* value) const {
    return number_refusal(static_cast<double>(*value), setting.range, fmt::format("{}", *value));
  }
  std::string operator()(const std::int64_t* value) const {
    return number_refusal(static_cast<double>(*value), setting.range, scalar_toml(*value));
  }
  std::string operator()(const double* value) const { return number_refusal(*value, setting.range, scalar_toml(*value)); }
  std::string operator()(const std::string* value) const { return text_refusal(setting, *value); }
  std::string operator()(const PhaseStart* value) const {
    const double* fraction = std::get_if<double>(value);
    return fraction ? number_refusal(*fraction, Range{.min = 0, .max = 1}, scalar_toml(*fraction))
                    : (*this)(std::get_if<std::int64_t>(value));
  }
  template <typename T>
  std::string operator()(const std::optional<T>* value) const {
    return *value ? (*this)(&**value) : "";
  }
  template <typename T>
  std::string operator()(const std::vector<T>* list) const {
    return each(*list);
  }
  std::string operator()(const std::array<double, 2>* list) const { return each(*list); }
  std::string operator()(const StageSplit* split) const { return each(split->layers); }

  template <typename List>
  std::string each(const List& list) const {
    for (const auto& item : list) {
      if (std::string why = (*this)(&item); !why.empty()) return why;
    }
    return "";
  }
};

}  // namespace

std::optional<std::string> to_toml(const ValueRef& value) { return std::visit(ToToml(), value); }

std::string quote_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string expected_text(const Setting& setting) {
  RunSettings settings;
  PrecisionOverride override_row;
  PrecisionPhase phase_row;
  if (!setting.choices.empty()) return choices_text(setting.choices);
  void* owner = &settings;
  for (const TableList& list : all_table_lists()) {
    const bool member =
        !list.fields.empty() && &setting >= list.fields.data() && &setting < list.fields.data() + list.fields.size();
    if (!member) continue;
    list.resize(settings, 1);
    owner = list.element(settings, 0);
  }
  return std::visit(TypeText(), setting.ref(owner)) + range_text(setting.range);
}

std::string value_refusal(const Setting& setting, const ValueRef& value) { return std::visit(Refusal{setting}, value); }

std::string printable(std::string_view text) {
  constexpr std::size_t kMaxBytes = 80;
  std::string out;
  for (const char c : text) {
    if (out.size() >= kMaxBytes) {
      while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80) out.pop_back();
      if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0) out.pop_back();
      return out + "...";
    }
    const unsigned char byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return out;
}

}  // namespace ida::config

// Finding declarations.
#include "config/setting.h"

#include <algorithm>
#include <cassert>

namespace ida::config {
namespace {

template <typename Row>
const Row* find_row(std::span<const Row> rows, std::string_view path) {
  const auto found = std::ranges::find(rows, path, &Row::path);
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

const Setting* find_setting(std::string_view path) { return find_row(all_settings(), path); }
const TableList* find_table_list(std::string_view path) { return find_row(all_table_lists(), path); }
bool is_section(std::string_view path) {
  return std::ranges::find(all_sections(), path, &Section::name) != all_sections().end();
}

std::string_view section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  assert(dot != std::string_view::npos);
  return path.substr(0, dot);
}

ValueRef value_of(const Setting& setting, RunSettings& settings) { return setting.ref(&settings); }

}  // namespace ida::config

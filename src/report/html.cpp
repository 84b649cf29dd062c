#include "report/html.h"

#include <fmt/core.h>

namespace ida::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the UTF-8 character at the start of `text`; 0 where there is none (RFC 3629: shortest form, no surrogates).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool too_large = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text[0];
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    if (length == 0 || control) {
      out += kReplacement;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string with_separators(std::int64_t value) {
  const std::string text = fmt::format("{}", value);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool after_digit = i > 0 && text[i - 1] != '-';
    if (after_digit && (text.size() - i) % 3 == 0) out += ',';
    out += text[i];
  }
  return out;
}

std::string key_value_table(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out = "<table class=\"facts\">\n";
  for (const auto& [key, value] : rows) out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape(key), escape(value));
  return out + "</table>\n";
}

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"scroll\"><table>\n<tr>";
  for (const std::string& cell : header) out += fmt::format("<th>{}</th>", escape(cell));
  out += "</tr>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += fmt::format("<td>{}</td>", escape(cell));
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string_view style_sheet() {
  return R"css(
:root { --bg: #fbfbfa; --fg: #1c1e21; --muted: #667078; --line: #dfe2e5; --card: #ffffff; --bad: #b42318;
  --c0: #2463c9; --c1: #c4570d; --c2: #1f8a4c; --c3: #8a3fb5; --c4: #b3285f; --c5: #6b6f1a; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #14171a; --fg: #e4e7ea; --muted: #98a2ab; --line: #2f353b; --card: #1b1f23; --bad: #ff8a7a;
    --c0: #7fb0ff; --c1: #ffab63; --c2: #6fd39a; --c3: #cf9bf2; --c4: #ff8fbd; --c5: #d3d67a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 28px 20px 60px; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 36px 0 12px; } h3 { font-size: 15px; margin: 20px 0 8px; }
.muted { color: var(--muted); } .bad { color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(148px, 1fr)); gap: 10px; margin-top: 18px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.card .value { font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; }
.card .name { color: var(--muted); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 12px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px 6px; }
figure.wide { grid-column: 1 / -1; } figcaption { font-weight: 600; font-size: 14px; }
.legend { font-weight: 400; color: var(--muted); font-size: 13px; margin-left: 10px; }
.legend .swatch { display: inline-block; width: 14px; height: 3px; vertical-align: middle; margin-right: 5px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--muted); font-size: 11px; font-family: inherit; } svg .grid { stroke: var(--line); stroke-width: 1; }
svg .curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; } .facts th { color: var(--muted); font-weight: 400; white-space: nowrap; }
.scroll { overflow-x: auto; } td { overflow-wrap: anywhere; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; overflow-x: auto;
  font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
pre .prompt { color: var(--muted); } summary { cursor: pointer; color: var(--muted); margin: 8px 0; }
)css";
}

}  // namespace ida::report

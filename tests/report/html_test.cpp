#include "report/html.h"

#include <gtest/gtest.h>

#include <limits>

namespace ida::report {
namespace {

TEST(Escape, MarkupAndControlCharacters) {
  EXPECT_EQ(escape("<b a=\"1\" c='2'>&amp;</b>"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;&lt;/b&gt;");
  EXPECT_EQ(escape("line\n\ttab"), "line\n\ttab");
  EXPECT_EQ(escape(std::string_view("a\0b\x1b[0m\x7f", 8)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD[0m\xEF\xBF\xBD");
}

TEST(Escape, KeepsUtf8AndReplacesWhatIsNot) {
  const std::string good = "é € 😀 \xF4\x8F\xBF\xBF";
  EXPECT_EQ(escape(good), good);
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(escape("a\xffz"), "a" + bad + "z");
  EXPECT_EQ(escape("\xe2\x82"), bad + bad);                      // cut short
  EXPECT_EQ(escape("\xc0\xaf"), bad + bad);                      // overlong
  EXPECT_EQ(escape("\xe0\x80\x80"), bad + bad + bad);            // overlong
  EXPECT_EQ(escape("\xed\xa0\x80"), bad + bad + bad);            // surrogate
  EXPECT_EQ(escape("\xf4\x90\x80\x80"), bad + bad + bad + bad);  // above U+10FFFF
  EXPECT_EQ(escape("\xe2<\xac"), bad + "&lt;" + bad);            // markup is not swallowed
}

TEST(WithSeparators, GroupsOfThree) {
  EXPECT_EQ(with_separators(0), "0");
  EXPECT_EQ(with_separators(999), "999");
  EXPECT_EQ(with_separators(1000), "1,000");
  EXPECT_EQ(with_separators(-1234567), "-1,234,567");
  EXPECT_EQ(with_separators(-999), "-999");
  EXPECT_EQ(with_separators(std::numeric_limits<std::int64_t>::max()), "9,223,372,036,854,775,807");
}

TEST(Table, EscapesEveryCell) {
  EXPECT_EQ(table({"<a>"}, {{"1 & 2"}, {"\""}}),
            "<div class=\"scroll\"><table>\n<tr><th>&lt;a&gt;</th></tr>\n<tr><td>1 &amp; 2</td></tr>\n"
            "<tr><td>&quot;</td></tr>\n</table></div>\n");
  EXPECT_EQ(key_value_table({{"k<", "v>"}}), "<table class=\"facts\">\n<tr><th>k&lt;</th><td>v&gt;</td></tr>\n</table>\n");
}

}  // namespace
}  // namespace ida::report

// Sizes, suggestions, the guard before the parser, quoting.
#include <algorithm>
#include <optional>

#include "base/rng.h"
#include "config/size_text.h"
#include "config/suggest.h"
#include "config/support.h"
#include "config/toml_guard.h"

namespace ida::config {
namespace {

TEST(SizeText, Units) {
  EXPECT_EQ(parse_size_bytes("16GiB"), std::int64_t{16} << 30);
  EXPECT_EQ(parse_size_bytes("1.5 GiB"), std::int64_t{3} << 29);
  EXPECT_EQ(parse_size_bytes("512MiB"), 512 << 20);
  EXPECT_EQ(parse_size_bytes("2KiB"), 2048);
  EXPECT_EQ(parse_size_bytes("1TiB"), std::int64_t{1} << 40);
  EXPECT_EQ(parse_size_bytes("3MB"), 3000000);
  EXPECT_EQ(parse_size_bytes("3kB"), 3000);
  EXPECT_EQ(parse_size_bytes("4096"), 4096);
  EXPECT_EQ(parse_size_bytes("4096 B"), 4096);
}

TEST(SizeText, Refusals) {
  for (const char* text : {"", " ", "GiB", "16G", "16gib", "-1GiB", "0", "0.1B", "1e3MiB", "16 GiB ", "16  GiB", "1.2.3MiB",
                           ".5GiB", "nan", "inf", "99999999999TiB", "16GiB\n", "+1GiB", "0x10MiB"}) {
    EXPECT_TRUE(contains(refused(ExitCode::kUsage, [&] { parse_size_bytes(text); }), "is no size")) << text;
  }
}

TEST(Suggest, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("lr", "lrr"), 1);
  EXPECT_EQ(edit_distance("wgard", "wgrad"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("Seq-Len", "seq_len"), 0);
  EXPECT_EQ(edit_distance(std::string(1000, 'a'), "a"), 1000);
}

TEST(Suggest, NearestOnlyWhenNear) {
  const std::array<std::string_view, 3> words = {"adamw", "lion", "lr"};
  EXPECT_EQ(nearest("adam", words), "adamw");
  EXPECT_EQ(nearest("loin", words), "lion");
  EXPECT_EQ(nearest("completely", words), "");
  EXPECT_EQ(nearest("xy", words), "");
  EXPECT_EQ(suggest_path("optm"), "optim");
  EXPECT_EQ(suggest_path("precision.overide"), "precision.override");
  EXPECT_EQ(suggest_path("optim.seq_len"), "data.seq_len");
  EXPECT_EQ(suggest_path("zzzzzzzzzzzzzzzzzz"), "");
}

// 0: not refused.
std::int64_t refused_line(std::string_view text) {
  const std::optional<GuardRefusal> refusal = toml_refusal(text);
  return refusal ? refusal->line : 0;
}

// What `nearest` skips unmeasured is never the nearest: words of few letters, every pair measured.
TEST(Suggest, NearestIsTheLeastOfAllDistances) {
  std::vector<std::string> words;
  for (std::uint64_t w = 0; w < 60; ++w) {
    std::string& word = words.emplace_back();
    const std::uint64_t length = 1 + bounded_at(7, 0, w, 9);
    for (std::uint64_t i = 0; i < length; ++i) word += "abcdE-_"[bounded_at(7, w + 1, i, 7)];
  }
  const std::vector<std::string_view> views(words.begin(), words.end());
  for (std::size_t w = 0; w < views.size(); ++w) {
    std::vector<std::string_view> others = views;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(w));
    int least = 1000;
    for (const std::string_view other : others) {
      const int distance = edit_distance(views[w], other);
      const auto longest = static_cast<int>(std::max(views[w].size(), other.size()));
      if (distance < longest) least = std::min(least, distance);
    }
    const std::string_view found = nearest(views[w], others);
    const int limit = std::max(2, static_cast<int>(views[w].size()) / 3);
    ASSERT_EQ(found.empty(), least > limit) << views[w];
    if (found.empty()) continue;
    EXPECT_EQ(edit_distance(views[w], found), least) << views[w] << " " << found;
  }
}

TEST(Guard, CountsDotsOfOneKeyOnly) {
  EXPECT_EQ(refused_line("a.b.c.d = 1\n[a.b.c]\n"), 0);
  EXPECT_EQ(refused_line("x = 1\na.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1\n"), 2);
  EXPECT_EQ(refused_line("[a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a]\n"), 1);
  EXPECT_EQ(refused_line("[a.\"x\".'y'.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a]\n"), 1);
  EXPECT_EQ(refused_line("x = \"....................\"\ny = '....................'\n# ....................\n"), 0);
  EXPECT_EQ(refused_line("x = \"\"\"\n....................\\\"\"\"\"\ny = '''\n....................''\n'''\n"), 0);
  EXPECT_EQ(refused_line("x = \"\\\"....................\"\n"), 0);
  EXPECT_EQ(refused_line("x = \"\"\na.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1\n"), 2);
  EXPECT_EQ(refused_line("x = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]\n"), 0);
}

TEST(Guard, LettersOutsideAsciiNotRightAfterAFoldedLine) {
  const auto refusal = toml_refusal("a = 1\nb = \"\"\"x \\\n  \xC8\xBB\"\"\"\n");
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->line, 3);
  EXPECT_NE(refusal->text.find("folded line"), std::string_view::npos);
  EXPECT_FALSE(toml_refusal("b = \"\"\"x \\\n  y\xC8\xBB\"\"\"\n"));        // an ASCII letter first
  EXPECT_FALSE(toml_refusal("b = \"\"\"x \xC8\xBB\n\xC8\xBB\"\"\"\n"));     // no fold
  EXPECT_TRUE(toml_refusal("b = \"\"\"x \\\xC8\xBB\"\"\"\n").has_value());  // no escape
  EXPECT_FALSE(toml_refusal("b = \"\"\"x \\\\\xC8\xBB\"\"\"\n"));           // a backslash, then the letter
  EXPECT_FALSE(toml_refusal("b = '\\ \xC8\xBB'\n"));                        // a literal string has no folds
}

TEST(Guard, LettersOutsideAsciiInStringsAndCommentsOnly) {
  EXPECT_EQ(refused_line("x = \"\xC9\x91\" # \xC9\x91\n\"\xC9\x91\" = 'ü\xFF'\n"), 0);
  EXPECT_EQ(refused_line("x = \"\"\"\nü\n\\\"\"\"ü\"\"\"\ny = '''\nü'''\n"), 0);
  EXPECT_EQ(refused_line("\xEF\xBB\xBFx = 1\n"), 0) << "a byte order mark";
  EXPECT_EQ(refused_line("x = 1\nrun\xC9\x91me = 1\n"), 2) << "a bare key";
  EXPECT_EQ(refused_line("[m\xC3\xBC]\n"), 1) << "a table header";
  EXPECT_EQ(refused_line("x = 'ü'\ny = \xC3\xBC\n"), 2) << "a value";
  EXPECT_EQ(refused_line("x = 1\n\xEF\xBB\xBF"), 2) << "a byte order mark in the middle";
  EXPECT_EQ(refused_line("x = \"ü\"\xC3\xBC\n"), 1) << "after a string";
  EXPECT_EQ(refused_line("x = 1\xFF\n"), 1) << "no letter at all";
  EXPECT_EQ(refused_line("x = 5T07:32'\xEF\xBB\xBD'\n"), 1) << "a quote within a word";
  EXPECT_EQ(refused_line("x = 'a''ü'\n"), 1) << "a quote after a string";
  EXPECT_EQ(refused_line("'ü'.\"ü\"='ü'\nx=['ü','ü',\t\"ü\"]\ny={'ü'=\"ü\"}\n[ 'ü' ]\n\"\"='ü'\n"), 0);
}

TEST(Printable, OneShortLine) {
  EXPECT_EQ(printable("a\nb\x7f"), "a?b?");
  EXPECT_EQ(printable(std::string(500, 'x')).size(), 83u);
  const std::string wide = printable("xx" + std::string(79, 'y') + "漢字");
  EXPECT_EQ(wide, "xx" + std::string(78, 'y') + "...");
  const std::string cut = printable(std::string(79, 'y') + "漢字");
  EXPECT_EQ(cut, std::string(79, 'y') + "...");
}

}  // namespace
}  // namespace ida::config

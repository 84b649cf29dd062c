"""check_lengths.py must fail past the limit, honour a reasoned exception and refuse a stale one."""
import unittest

from support import TreeTest

TOOL = "check_lengths.py"
FUNCTION = "int sum(const int* x, int n) {\n  int total = 0;\n" + "  ++total;\n" * 60 + "  return total;\n}\n"


class CheckLengthsTest(TreeTest):
    def test_a_short_file_passes_without_warning(self):
        self.write("src/base/short.cpp", "int x;\n" * 300)
        self.assertIn("0 failures, 0 warnings", self.assert_passes(TOOL))

    def test_past_the_aim_warns_and_past_the_limit_fails(self):
        self.write("src/base/long.cpp", "int x;\n" * 301)
        self.assertIn("warning: src/base/long.cpp:1: 301 lines", self.assert_passes(TOOL))
        self.write("src/base/long.cpp", "int x;\n" * 501)
        self.assert_fails(TOOL, "src/base/long.cpp:1: 501 lines, the limit is 500")

    def test_an_exception_needs_a_reason_and_has_its_own_limit(self):
        self.write("src/base/table.cpp", "int x;\n" * 600)
        self.write("tools/length_allow.txt", "src/base/table.cpp 650\n")
        self.assert_fails(TOOL, "tools/length_allow.txt:1: expected `path limit reason`")
        self.write("tools/length_allow.txt", "# path limit reason\nsrc/base/table.cpp 650 one generated table\n")
        self.assert_passes(TOOL)
        self.write("src/base/table.cpp", "int x;\n" * 651)
        self.assert_fails(TOOL, "src/base/table.cpp:1: 651 lines, the limit is 650")

    def test_an_exception_no_longer_needed_fails(self):
        self.write("src/base/table.cpp", "int x;\n" * 10)
        self.write("tools/length_allow.txt", "src/base/table.cpp 650 table\nsrc/base/gone.cpp 900 table\n")
        self.assert_fails(TOOL, "its exception is no longer needed", "src/base/gone.cpp does not exist")

    def test_long_functions_are_reported_with_their_name(self):
        self.write("src/base/sum.cpp", "namespace ida {\n" + FUNCTION + "}\n")
        self.assertIn("warning: src/base/sum.cpp:2: sum has 64 lines", self.assert_passes(TOOL))

    def test_braces_in_comments_and_strings_do_not_count(self):
        tricky = FUNCTION.replace("  ++total;\n", "  // }\n  const char* s = \"}\";\n  char c = '}';\n", 1)
        self.write("src/base/sum.cpp", tricky + "struct Empty {};\nvoid tiny() {}\n")
        output = self.assert_passes(TOOL)
        self.assertIn("sum has 66 lines", output)
        self.assertNotIn("tiny", output)

    def test_python_functions_are_measured_too(self):
        self.write("tools/long.py", "def walk():\n" + "    x = 1\n" * 61)
        self.assertIn("warning: tools/long.py:1: walk has 62 lines", self.assert_passes(TOOL))


if __name__ == "__main__":
    unittest.main()

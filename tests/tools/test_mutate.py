"""tools/mutate must tell killed, surviving, stale and uncompilable mutants apart, and leave the tree alone."""
import unittest

from support import TreeTest

SOURCE = """int sum(int a, int b) {
  int unused = 7;
  (void)unused;
  return a + b;
}
"""
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(fixture LANGUAGES CXX)
enable_testing()
add_subdirectory(tests/sum)
"""
TEST_LIST = """add_executable(test_sum check.cpp ${CMAKE_SOURCE_DIR}/src/sum.cpp)
add_test(NAME Sum.OfTwo COMMAND test_sum)
add_test(NAME Sum.Elsewhere COMMAND ${CMAKE_COMMAND} -E true)
add_test(NAME Red.Always COMMAND ${CMAKE_COMMAND} -E false)
add_test(NAME Absent.Hardware COMMAND ${CMAKE_COMMAND} -E echo none)
set_tests_properties(Absent.Hardware PROPERTIES SKIP_REGULAR_EXPRESSION none)
"""
CHECK = "int sum(int, int);\nint main() { return sum(2, 3) == 5 ? 0 : 1; }\n"


class MutateTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("CMakeLists.txt", PROJECT)
        self.write("src/sum.cpp", SOURCE)
        self.write("tests/sum/CMakeLists.txt", TEST_LIST)
        self.write("tests/sum/check.cpp", CHECK)

    def mutant(self, name, find="a + b", replace="a - b", tests="^Sum.OfTwo", extra=""):
        self.write(f"tools/mutants/{name}.toml",
                   f"why = 'wrong sum'\nfile = 'src/sum.cpp'\nfind = '{find}'\nreplace = '{replace}'\n"
                   f"rooms = ['sum']\ntests = '{tests}'\n{extra}")

    def test_each_fate_is_told_apart_in_one_run(self):
        self.mutant("caught")
        self.mutant("equivalent", find="= 7", replace="= 8")
        self.mutant("loose", tests="^Sum.Elsewhere")
        self.mutant("ungrammatical", replace="a +")
        self.mutant("red_before", tests="^Red")
        self.mutant("nobody_looks", tests="^Nothing")
        self.mutant("elsewhere_only", tests="^Absent")
        code, output = self.run_tool("mutate")
        self.assertEqual(code, 1, output)
        self.assertIn("killed    caught: Sum.OfTwo", output)
        self.assertIn("SURVIVED  equivalent: wrong sum", output)
        self.assertIn("SURVIVED  loose: wrong sum", output)
        self.assertIn("UNUSABLE  ungrammatical: does not compile", output)
        self.assertIn("UNUSABLE  red_before: red without the change: Red.Always", output)
        self.assertIn("UNUSABLE  nobody_looks: no test ran", output)
        self.assertIn("left out  elsewhere_only: skipped on this machine: Absent.Hardware", output)
        self.assertIn("mutate: 1 killed, 2 survived, 3 unusable", output)
        self.assertEqual((self.root / "src/sum.cpp").read_text(), SOURCE)

        code, output = self.run_tool("mutate", "--only", "caught")
        self.assertEqual(code, 0, output)
        self.assertIn("mutate: 1 killed, 0 survived, 0 unusable", output)

    def test_check_passes_what_applies_and_builds_nothing(self):
        self.mutant("caught")
        code, output = self.run_tool("mutate", "--check")
        self.assertEqual((code, output), (0, "mutate: 1 mutants apply, 0 do not\n"))
        self.assertFalse((self.root / "build-mutate").exists())

    def test_stale_ambiguous_and_malformed_mutants_fail_the_check(self):
        self.mutant("stale", find="a * b")
        self.mutant("ambiguous", find="unused")
        self.mutant("no_change", replace="a + b")
        self.mutant("typo", extra="test = 'x'\n")
        self.mutant("bad_pattern", tests="(")
        self.write("tools/mutants/short.toml", "why = 'x'\n")
        self.write("tools/mutants/broken.toml", "why =\n")
        code, output = self.run_tool("mutate", "--check")
        self.assertEqual(code, 1, output)
        for line in ("stale: stale: its text occurs 0 times", "ambiguous: stale: its text occurs 2 times",
                     "no_change: `find` and `replace` are equal", "typo: unknown key `test`",
                     "bad_pattern: `tests` is no regular expression", "short: key `file` is missing",
                     "broken: not TOML"):
            self.assertIn("UNUSABLE  " + line, output)

    def test_a_stale_mutant_fails_a_run_of_others(self):
        self.mutant("caught")
        self.mutant("stale", find="a * b")
        code, output = self.run_tool("mutate", "--only", "caught")
        self.assertEqual(code, 1, output)
        self.assertIn("1 killed, 0 survived, 1 unusable", output)

    def test_no_mutants_and_unknown_names_fail(self):
        self.assertEqual(self.run_tool("mutate", "--check")[0], 1)
        self.mutant("caught")
        code, output = self.run_tool("mutate", "--only", "nosuch")
        self.assertEqual(code, 1)
        self.assertIn("no mutant nosuch", output)


if __name__ == "__main__":
    unittest.main()

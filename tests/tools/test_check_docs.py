"""check_docs.py must notice dead links, paths that do not exist, quotations that are no longer true and options that the
program does not have."""
import unittest

from support import TreeTest

TOOL = "check_docs.py"
PROGRAM = """#!/bin/sh
case "$1 $2" in
  "--help ") printf 'Options:\\n  -h,--help  x\\n\\nSubcommands:\\n  train  x\\n  verify  x\\n' ;;
  "train --help") printf 'Options:\\n  -h,--help  x\\n  --set TEXT  a --word in the help\\n' ;;
  "verify --help") printf 'Options:\\n  -h,--help  x\\n\\nSubcommands:\\n  golden  x\\n' ;;
  "verify golden") printf 'Options:\\n  -h,--help  x\\n  --rtol FLOAT:POSITIVE=1e-05\\n             bar\\n' ;;
esac
"""
HEADER = "struct Gemm {\n  int m = 0;\n  int n = 0;\n};\nvoid run(int a,\n         int b);\n"
COMMANDS = """# Commands

## `train`

| `--set` | x |

## `verify golden`

| `--rtol` | x |

## Settings

| `--no` | x |
"""


class CheckDocsTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/ops/gemm.h", HEADER)
        self.write("docs/naming.md", "# Names\n\n## Units, and more\n")

    def test_true_documents_pass(self):
        self.write("README.md", "See [names](docs/naming.md#units-and-more), [there](https://example.org/x.md), src/ops, "
                                "`src/ops/gemm.h`, `ops/gemm.h`, src/*/gemm.h, `src/ops/<op>.h`, docs/naming.md.\n")
        self.assert_passes(TOOL)

    def test_dead_links_are_found(self):
        self.write("docs/a.md", "x\n[gone](gone.md)\n[up](naming.md#lengths)\n[out](../../other.md)\n")
        self.assert_fails(TOOL, "docs/a.md:2: link to gone.md: no such file",
                          "docs/a.md:3: link to naming.md#lengths: no such heading", "docs/a.md:4: link to ../../other.md")

    def test_paths_that_do_not_exist_are_found(self):
        self.write("README.md", "`src/ops/gone.h` and tests/gone.\n`ops/gone.h`\nsrc/*/gone.h\n")
        self.assert_fails(TOOL, "README.md:1: src/ops/gone.h does not exist", "README.md:1: tests/gone. does not exist",
                          "README.md:2: src/ops/gone.h does not exist", "README.md:3: src/*/gone.h does not exist")

    def test_quotations_may_differ_in_blanks_and_leave_out(self):
        self.write("docs/a.md", "```cpp src/ops/gemm.h\nstruct Gemm {\n...\n};\nvoid run(int a, int b);\n```\n")
        self.assert_passes(TOOL)

    def test_a_quotation_that_changed_is_found(self):
        self.write("docs/a.md", "x\n```cpp src/ops/gemm.h\nint m = 1;\n```\n")
        self.assert_fails(TOOL, "docs/a.md:2: src/ops/gemm.h does not hold the quoted text that starts with `int m = 1;`")

    def test_a_quotation_out_of_order_is_found(self):
        self.write("docs/a.md", "```cpp src/ops/gemm.h\nint n = 0;\n...\nint m = 0;\n```\n")
        self.assert_fails(TOOL, "does not hold the quoted text that starts with `int m = 0;`")

    def test_a_block_without_a_file_is_not_compared(self):
        self.write("docs/a.md", "```cpp\nint z;\n```\n```\nwords\n```\n")
        self.assert_passes(TOOL)

    def test_names_of_tests_that_do_not_exist_are_found(self):
        self.write("tests/ops/a_test.cpp", "TEST(Gemm, AddsUp) {}\nTEST_F(GemmTest,\n       Wraps) {}\n")
        self.write("tests/ops/CMakeLists.txt", "add_test(NAME Whole.Program COMMAND x)\n")
        self.write("README.md", "`Gemm.AddsUp`, `GemmTest.Wraps`, `Whole.Program`, `a.b`, `Gemm`\n")
        self.assert_passes(TOOL)
        self.write("README.md", "`Gemm.AddsUp`\n`Gemm.AddsDown`\n")
        self.assert_fails(TOOL, "README.md:2: there is no test Gemm.AddsDown")

    def test_commands_are_compared_with_the_program(self):
        self.write("ida-train", PROGRAM)
        program = self.root / "ida-train"
        program.chmod(0o755)
        self.write("docs/commands.md", COMMANDS)
        code, output = self.run_tool(TOOL, "--program", str(program))
        self.assertEqual(code, 0, output)
        for change, expected in [(("--set", "--get"), "`train`: --get is no option of the program"),
                                 (("--rtol", "--bar"), "`verify golden`: --rtol is not described"),
                                 (("`train`", "`walk`"), "the command `train` is not described"),
                                 (("`train`", "`walk`"), "`walk` is no command of the program")]:
            self.write("docs/commands.md", COMMANDS.replace(*change))
            code, output = self.run_tool(TOOL, "--program", str(program))
            self.assertEqual(code, 1, output)
            self.assertIn(expected, output)


if __name__ == "__main__":
    unittest.main()

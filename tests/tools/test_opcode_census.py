"""opcode_census.py on fatbins made here and a disassembler that prints what they hold."""
import os
import struct
import subprocess
import sys
import unittest

from support import TOOLS, TreeTest

PLAIN = "        /*0010*/                   HMMA.16816.F32.BF16 R4, R8, R10, RZ ;\n        /*0020*/               @!P0 STG.E [R2], R4 ;\n"
COUNTER = "        /*0030*/                   ATOMG.E.ADD.STRONG.GPU PT, R9, desc[UR8][R2.64], R13 ;\n"
SUM = "        /*0040*/              @P1  REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR8][R4.64], R3 ;\n"
SPILL = "        /*0050*/                   STL.64 [R1+0x8], R4 ;\n"
PRODUCT = "        /*0010*/                   FFMA R4, R8, R10, RZ ;\n"
HEADER = ".text._ZN3ida4cuda12_GLOBAL__N_16kernelIfLi4EEEvPf:\n"


def fatbin(codes):
    """The fatbin of {(architecture, is it an `a` target): text}."""
    entries = b""
    for (arch, features), text in codes.items():
        code = text.encode()
        head = struct.pack("<HHIQ", 2, 0x101, 64, len(code)) + bytes(12) + struct.pack("<I", arch) + bytes(8)
        entries += head + struct.pack("<Q", 0x11 | (0x100000 if features else 0)) + bytes(16) + code
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


class OpcodeCensusTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("nvdisasm", '#!/bin/sh\nfor last; do :; done\ncat "$last"\n')
        (self.root / "nvdisasm").chmod(0o755)
        self.nvdisasm = str(self.root / "nvdisasm")

    def census(self, codes, *options):
        """(exit code, output) over an object of these codes."""
        (self.root / "rope.cu.o").write_bytes(b"\x7fELF before" + fatbin(codes) + b"after")
        done = subprocess.run([sys.executable, str(TOOLS / "opcode_census.py"), "--table", str(self.root / "table.tsv"),
                               *options, str(self.root / "rope.cu.o"), str(self.root / "host.cpp.o")],
                              env={**os.environ, "IDA_NVDISASM": self.nvdisasm}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def write_table(self, codes):
        code, output = self.census(codes, "--write")
        self.assertEqual(code, 0, output)

    def assert_finds(self, codes, expected):
        code, output = self.census(codes)
        self.assertEqual(code, 1, output)
        self.assertIn(expected, output)

    def test_what_the_table_says_passes(self):
        codes = {(90, True): HEADER + PLAIN + COUNTER, (120, False): HEADER + PLAIN + SPILL}
        self.write_table(codes)
        rows = (self.root / "table.tsv").read_text().splitlines()[1:]
        self.assertEqual(rows, ["rope\t120\tHMMA.16816.F32.BF16\t-\tkernel<float, 4>",
                                "rope\t90a\tHMMA.16816.F32.BF16\tATOMG.E.ADD.STRONG.GPU\t-"])
        self.assertEqual(self.census(codes), (0, "opcode_census: 2 cubins, 0 findings\n"))

    def test_an_architecture_that_was_not_built_is_not_compared(self):
        self.write_table({(90, True): HEADER + PLAIN, (120, True): HEADER + PLAIN})
        code, output = self.census({(90, True): HEADER + PLAIN})
        self.assertEqual(code, 0, output)
        self.write_table({(90, True): HEADER + PRODUCT})
        rows = (self.root / "table.tsv").read_text().splitlines()[1:]
        self.assertEqual(rows, ["rope\t120a\tHMMA.16816.F32.BF16\t-\t-", "rope\t90a\t-\t-\t-"])

    def test_differences_are_found(self):
        self.write_table({(90, True): HEADER + PLAIN})
        for text, expected in ((PRODUCT, "rope sm_90a: tensor cores: expected HMMA.16816.F32.BF16, found -"),
                               (PLAIN + COUNTER, "rope sm_90a: atomics: expected -, found ATOMG.E.ADD.STRONG.GPU"),
                               (PLAIN + SPILL, "rope sm_90a: kernels with local memory: expected -, found kernel<float, 4>")):
            self.assert_finds({(90, True): HEADER + text}, expected)
        self.assert_finds({(100, True): HEADER + PLAIN}, "rope sm_100a: not in the table")
        self.write("table.tsv", "rope\t90a\tHMMA.16816.F32.BF16\t-\t-\nswiglu\t90a\t-\t-\t-\n")
        self.assert_finds({(90, True): HEADER + PLAIN}, "swiglu sm_90a: in the table, but no such kernel file was compiled")

    def test_a_floating_point_atomic_fails_whatever_the_table_says(self):
        codes = {(90, True): HEADER + PLAIN + SUM}
        self.write("table.tsv", "rope\t90a\tHMMA.16816.F32.BF16\tREDG.E.ADD.F32.FTZ.RN.STRONG.GPU\t-\n")
        self.assert_finds(codes, "rope sm_90a: kernel<float, 4> holds REDG.E.ADD.F32.FTZ.RN.STRONG.GPU")
        code, output = self.census(codes, "--write")
        self.assertEqual(code, 1, output)

    def test_nothing_read_is_no_success(self):
        self.write("table.tsv", "")
        self.assert_finds({}, "no machine code in rope.cu.o")
        self.assert_finds({(90, True): "another form of text\n"}, "a disassembly without a single instruction")

    def test_without_a_disassembler_it_is_skipped(self):
        self.nvdisasm = str(self.root / "gone")
        code, output = self.census({(90, True): HEADER + PLAIN})
        self.assertEqual(code, 77, output)
        self.assertIn("skipped: no nvdisasm", output)


if __name__ == "__main__":
    unittest.main()

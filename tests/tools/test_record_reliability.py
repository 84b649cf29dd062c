"""The table in docs/reliability.md is the one that the record in evidence/reliability gives."""
import subprocess
import sys
import unittest

from support import TOOLS

ROOT = TOOLS.parent


class RecordReliabilityTest(unittest.TestCase):
    def test_the_document_states_what_is_on_record(self):
        command = [sys.executable, str(TOOLS / "record_reliability.py"), "--table", str(ROOT / "evidence/reliability")]
        table = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        document = (ROOT / "docs/reliability.md").read_text(encoding="utf-8").splitlines()
        self.assertGreater(len(table), 8)
        for line in table:
            self.assertIn(line, document)


if __name__ == "__main__":
    unittest.main()

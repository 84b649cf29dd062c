"""Shared by the tests of the tools: a throw-away tree, and one of the tools run on it."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"


class TreeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def run_tool(self, name, *arguments):
        """(exit code, everything printed)"""
        done = subprocess.run([sys.executable, str(TOOLS / name), "--root", str(self.root), *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def assert_fails(self, tool, *expected):
        code, output = self.run_tool(tool)
        self.assertEqual(code, 1, output)
        for text in expected:
            self.assertIn(text, output)

    def assert_passes(self, tool):
        code, output = self.run_tool(tool)
        self.assertEqual(code, 0, output)
        return output

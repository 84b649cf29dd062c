"""gpu_record.py must name exactly the sources that no passed record covers as they are."""
import hashlib
import json
import unittest

from support import TreeTest

TOOL = "gpu_record.py"


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


class GpuRecordTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/backend/cuda/rope.cpp", "a")
        self.write("src/backend/cuda/kernels/rope.cu", "b")
        self.write("src/backend/cuda/CMakeLists.txt", "not a source")

    def record(self, folder, sources, exit_code=0):
        self.write(f"evidence/{folder}/gpu_suite.json",
                   json.dumps({"doctor": {"device": "Some GPU"}, "tests": {"exit_code": exit_code},
                               "sources": {f"src/backend/cuda/{path}": digest(text) for path, text in sources.items()}}))

    def test_all_covered_is_one_line_with_the_device(self):
        self.record("one", {"rope.cpp": "a"})
        self.record("two", {"rope.cpp": "older", "kernels/rope.cu": "b", "gone.cpp": "x"})
        self.assertEqual(self.assert_passes(TOOL),
                         "gpu_record: 2 of 2 sources of the CUDA room tested as they are, by "
                         "evidence/one/gpu_suite.json (Some GPU), evidence/two/gpu_suite.json (Some GPU)\n")

    def test_changed_and_unrecorded_sources_are_named(self):
        self.record("one", {"rope.cpp": "older"})
        lines = self.assert_passes(TOOL).splitlines()
        self.assertEqual(lines, ["src/backend/cuda/kernels/rope.cu: in no record of tests on a GPU",
                                 "src/backend/cuda/rope.cpp: changed since evidence/one/gpu_suite.json",
                                 "gpu_record: 0 of 2 sources of the CUDA room tested as they are, by none"])

    def test_a_record_of_failed_tests_or_of_none_covers_nothing(self):
        self.record("one", {"rope.cpp": "a"}, exit_code=1)
        self.write("evidence/two/gpu_suite.json", json.dumps({"sources": {}, "doctor": {}}))
        output = self.assert_passes(TOOL)
        self.assertIn("src/backend/cuda/rope.cpp: tests failed in evidence/one/gpu_suite.json\n", output)
        self.assertIn("0 of 2 sources", output)


if __name__ == "__main__":
    unittest.main()

"""What an installed package shows of itself."""
import os
import re
import signal
import subprocess
import sys
import unittest
from importlib import resources
from pathlib import Path

import ida_train

ROOT = Path(__file__).resolve().parent.parent.parent


class PackageTest(unittest.TestCase):
    def test_the_version_is_the_project_s(self):
        project = re.search(r"project\(ida_train VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertEqual(ida_train.__version__, project.group(1))

    def test_it_is_marked_as_typed_and_has_stubs(self):
        self.assertTrue(resources.files(ida_train).joinpath("py.typed").is_file())
        self.assertTrue(resources.files(ida_train).joinpath("native", "_engine.pyi").is_file())

    def test_stubs_name_what_the_engine_has(self):
        engine = ida_train.native.mxfp8_codec._engine
        stubs = resources.files(ida_train).joinpath("native", "_engine.pyi").read_text(encoding="utf-8")
        declared = set(re.findall(r"^def (\w+)", stubs, re.M)) | set(re.findall(r"^([A-Z]\w+):", stubs, re.M))
        self.assertEqual(declared, {name for name in dir(engine) if not name.startswith("_")})

    def test_a_refusal_is_one_line_and_leaves_nothing_behind(self):
        code = "import numpy, ida_train\ntry: ida_train.formats.quantize(numpy.ones((1, 1), 'f4'), 'x')\nexcept ValueError as e: print(e)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual((done.stdout, done.stderr), ("format: no format is called 'x'\n", ""))

    def test_a_forked_child_does_not_wait_for_threads_it_lacks(self):
        code = """if True:
            import numpy, os, ida_train
            x = numpy.ones((2048, 256), "f4")
            first = ida_train.formats.quantize(x, "mxfp8").codes
            child = os.fork()
            if child == 0:
                os._exit(0 if (ida_train.formats.quantize(x, "mxfp8").codes == first).all() else 1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"""
        environment = {**os.environ, "OMP_NUM_THREADS": "2"}
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment,
                              start_new_session=True) as process:
            try:
                self.assertEqual(process.communicate(timeout=20)[0], "0\n")
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()

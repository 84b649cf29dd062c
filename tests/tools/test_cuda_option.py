"""cuda_option.sh: when the CUDA backend is built, and what it says where it cannot be."""
import os
import subprocess
import unittest

from support import TOOLS, TreeTest


class CudaOptionTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("bin/nvcc", "")
        (self.root / "bin/nvcc").chmod(0o755)
        self.write("gpu", "")

    def option(self, cuda=None, gpu=False, nvcc=False):
        """(exit code, stdout, stderr)"""
        env = {"PATH": "/usr/bin:/bin", "IDA_GPU_NODE": str(self.root / ("gpu" if gpu else "no_gpu")),
               "IDA_CUDA_HOME": str(self.root if nvcc else self.root / "nowhere")}
        if cuda is not None:
            env["CUDA"] = cuda
        done = subprocess.run(["bash", str(TOOLS / "cuda_option.sh")], env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip(), done.stderr

    @unittest.skipIf(os.path.exists("/usr/bin/nvcc"), "nvcc is on the path of every process")
    def test_what_is_built(self):
        for cuda, gpu, nvcc, expected in ((None, False, True, "OFF"), ("", False, True, "OFF"), (None, True, True, "ON"),
                                          (None, True, False, "OFF"), ("0", True, True, "OFF"), ("1", False, True, "ON")):
            with self.subTest(cuda=cuda, gpu=gpu, nvcc=nvcc):
                code, out, err = self.option(cuda, gpu, nvcc)
                self.assertEqual((code, out), (0, f"-DIDA_CUDA={expected}"))
                self.assertEqual("warning" in err, gpu and not nvcc)

    @unittest.skipIf(os.path.exists("/usr/bin/nvcc"), "nvcc is on the path of every process")
    def test_refusals_are_one_line(self):
        for arguments, words in ((("1", True, False), ("CUDA=1", "nvcc", "CUDA=0")), (("yes",), ("CUDA=yes", "expected"))):
            code, out, err = self.option(*arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(len(err.splitlines()), 1)
            for word in words:
                self.assertIn(word, err)


if __name__ == "__main__":
    unittest.main()

"""check_includes.py must refuse each breach, naming file, line and rule, and pass what the table allows."""
import unittest

from support import TreeTest

TOOL = "check_includes.py"


class CheckIncludesTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/base/error.h", "#pragma once\n#include <string>\n")
        self.write("src/ops/gemm.h", '#pragma once\n#include "base/error.h"\n')
        self.write("src/model/decoder.cpp", '#include "base/error.h"\n#include "ops/gemm.h"\n#include <fmt/core.h>\n')
        self.write("apps/ida-train/main.cpp", '#include "model/decoder.h"\n#include <CLI/CLI.hpp>\n')
        self.write("src/model/decoder.h", "#pragma once\n")

    def test_a_tree_within_the_table_passes(self):
        self.assert_passes(TOOL)

    def test_peers_and_the_reverse_direction_are_refused(self):
        self.write("src/base/upward.cpp", '#include "base/error.h"\n#include "ops/gemm.h"\n')
        self.write("src/optim/peer.cpp", '#include "model/decoder.h"\n')
        self.assert_fails(TOOL, "src/base/upward.cpp:2: base may not include ops",
                          "src/optim/peer.cpp:1: optim may not include model")

    def test_backends_are_seen_by_apps_alone(self):
        self.write("src/backend/cpu/cpu_backend.h", "#pragma once\n")
        self.write("apps/ida-train/cmd_train.cpp", '#include "backend/cpu/cpu_backend.h"\n')
        self.assert_passes(TOOL)
        self.write("src/train/step.cpp", '#include "backend/cpu/cpu_backend.h"\n')
        self.assert_fails(TOOL, "src/train/step.cpp:1: train may not include backend/cpu")

    def test_the_python_bindings_are_a_room(self):
        self.write("src/backend/cpu/quantize.h", "#pragma once\n")
        self.write("python/bindings/arrays.h", "#pragma once\n#include <nanobind/nanobind.h>\n")
        self.write("python/bindings/formats.cpp", '#include "arrays.h"\n#include "backend/cpu/quantize.h"\n')
        self.assert_passes(TOOL)
        self.write("python/bindings/model.cpp", '#include "model/decoder.h"\n')
        self.write("src/ops/array.cpp", "#include <nanobind/ndarray.h>\n")
        self.assert_fails(TOOL, "python/bindings/model.cpp:1: python may not include model",
                          "src/ops/array.cpp:1: <nanobind/ndarray.h> is confined to python")

    def test_a_single_opened_header_does_not_open_its_room(self):
        self.write("src/model/param_spec.h", "#pragma once\n")
        self.write("src/checkpoint/save.cpp", '#include "model/param_spec.h"\n')
        self.assert_passes(TOOL)
        self.write("src/checkpoint/load.cpp", '#include "model/decoder.h"\n')
        self.assert_fails(TOOL, "src/checkpoint/load.cpp:1: checkpoint may not include model")

    def test_device_code_sees_less_than_its_backend(self):
        self.write("src/backend/cuda/device/mma.cuh", '#pragma once\n#include "ops/gemm.h"\n')
        self.assert_fails(TOOL, "src/backend/cuda/device/mma.cuh:2: backend/cuda/device may not include ops")

    def test_third_party_headers_stay_in_their_rooms(self):
        self.write("src/ops/gemm.cpp", "#include <cublasLt.h>\n#include <sqlite3.h>\n#include <boost/any.hpp>\n")
        self.assert_fails(TOOL, "src/ops/gemm.cpp:1: <cublasLt.h> is confined to backend/cuda",
                          "src/ops/gemm.cpp:2: <sqlite3.h> is confined to evidence",
                          "src/ops/gemm.cpp:3: <boost/any.hpp> has no row")

    def test_heavy_headers_stay_out_of_our_headers_and_of_nvcc(self):
        self.write("src/evidence/ledger.h", "#pragma once\n#include <sqlite3.h>\n")
        self.write("src/backend/cuda/kernels/rope.cu", "#include <fmt/core.h>\n")
        self.assert_fails(TOOL, "src/evidence/ledger.h:2: <sqlite3.h> belongs in a .cpp file",
                          "src/backend/cuda/kernels/rope.cu:1: <fmt/core.h> may not reach nvcc")

    def test_unknown_rooms_and_headers_are_refused(self):
        self.write("src/helpers/misc.h", "#pragma once\n")
        self.write("src/base/lost.cpp", '#include "error.h"\n')
        self.assert_fails(TOOL, "src/helpers/misc.h:1: lies in no room",
                          'src/base/lost.cpp:1: "error.h" is not below src/')

    def test_an_include_cycle_is_refused(self):
        self.write("src/base/first.h", '#pragma once\n#include "base/second.h"\n')
        self.write("src/base/second.h", '#pragma once\n#include "base/first.h"\n')
        self.assert_fails(TOOL, "src/base/second.h:2: include cycle base/first.h -> base/second.h -> base/first.h")

    def test_open_notes_machine_paths_and_fixed_isa_are_refused(self):
        self.write("src/base/open.cpp", "// TO" "DO: later\n")
        self.write("src/base/path.cpp", 'const char* kPath = "/tmp/x";\n')
        self.write("recipes/a.toml", 'dir = "/home/ann/runs"\n')
        self.write("CMakeLists.txt", "add_compile_options(-march=native)\n")
        self.assert_fails(TOOL, "src/base/open.cpp:1: work left open", "src/base/path.cpp:1: path of one machine",
                          "recipes/a.toml:1: path of one machine", "CMakeLists.txt:1: kernels are chosen")

    def test_a_url_is_no_machine_path(self):
        self.write("recipes/b.toml", "# see https://example.org/home/page\n")
        self.assert_passes(TOOL)


if __name__ == "__main__":
    unittest.main()

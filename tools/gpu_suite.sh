#!/usr/bin/env bash
# gpu_suite.sh PROGRAM TESTS FOLDER [--quick]: everything that needs a GPU, in one run: the tests of the CUDA room,
# compute-sanitizer over its kernels, golden cases in f32 and in bf16 beside the CPU, training steps beside PyTorch.
# FOLDER gets gpu_suite.json (a record for evidence/) and the logs. PROGRAM and TESTS are ida-train and test_backend_cuda
# of a build with IDA_CUDA=ON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 tools/gpu_suite.py "$@"

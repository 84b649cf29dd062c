#!/usr/bin/env bash
# The body of `make test`: source checks, every CTest case, a few mutants. The first failure ends it. The last line is
# CTest's own closing line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${BUILD:-build}
jobs=${JOBS:-1}
step() { printf '\n== %s\n' "$*"; }

step "source checks"
tools/format.sh --check
python3 tools/check_includes.py
python3 tools/check_lengths.py
python3 tools/check_docs.py
python3 tools/mutate --check

step "build"
cuda_option=$(tools/cuda_option.sh)
cmake -S . -B "$build" -G Ninja "$cuda_option"
cmake --build "$build" --parallel "$jobs"
python3 tools/check_docs.py --program "$build/ida-train"

step "tests"
log=$build/ctest.log
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" 2>&1 | tee "$log"

step "kernels tested on a GPU"
python3 tools/gpu_record.py

tools/short_fuzz.sh

step "mutants (${QUICK_MUTANTS:-3} of them; 'make mutate' runs all)"
python3 tools/mutate --quick "${QUICK_MUTANTS:-3}" --jobs "$jobs"

step "all checks passed"
grep -E '^[0-9]+% tests passed' "$log"

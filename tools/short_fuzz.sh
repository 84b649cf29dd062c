#!/usr/bin/env bash
# The short fuzz run of `make test`: the libFuzzer programs of tests/fuzz, a few thousand executions each. Skipped, and
# said so, where clang's fuzzer runtime is absent (FUZZ=1 tools/install_deps.sh installs it).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${JOBS:-1}
seconds=${FUZZ_SECONDS:-2}  # for each target
printf '\n== short fuzz run (%s s a target)\n' "$seconds"

has_fuzzer() {  # a program that links says more than the name of a package
  local scratch
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' RETURN
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$scratch/probe.cpp"
  clang++ -fsanitize=fuzzer,address -fopenmp "$scratch/probe.cpp" -o "$scratch/probe" >/dev/null 2>&1
}

if ! has_fuzzer; then
  echo "skipped: clang++ with its fuzzer runtime and libomp is not installed (FUZZ=1 tools/install_deps.sh)"
  exit 0
fi
cmake --preset fuzz >/dev/null
cmake --build build-fuzz --parallel "$jobs" | tail -n 1
python3 tools/record_fuzz.py build-fuzz --seconds "$seconds"

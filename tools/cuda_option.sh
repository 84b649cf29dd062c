#!/usr/bin/env bash
# Prints the CMake option of the CUDA backend, for `make` and the tests: CUDA=1 builds it and needs nvcc; CUDA=0 does
# not; without the variable it is built where there are both a GPU and nvcc.
set -euo pipefail

toolkit="nvcc of CUDA toolkit 13 (Debian, Ubuntu: cuda-nvcc-13-0 and cuda-cudart-dev-13-0 of the vendor's repository,\
 docs/dependencies.md); looked for CUDACXX, PATH and /usr/local/cuda/bin"
gpu_node=${IDA_GPU_NODE:-/dev/nvidia0}  # another one in tests

have_nvcc() {
  [[ -n ${CUDACXX:-} ]] || command -v nvcc >/dev/null || [[ -x ${IDA_CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]
}

case ${CUDA:-auto} in
  0) echo "-DIDA_CUDA=OFF" ;;
  1)
    have_nvcc || { echo "cuda_option: CUDA=1 needs $toolkit; or build for the CPU with CUDA=0" >&2; exit 2; }
    echo "-DIDA_CUDA=ON"
    ;;
  auto)
    if [[ ! -e $gpu_node ]]; then
      echo "-DIDA_CUDA=OFF"
    elif have_nvcc; then
      echo "-DIDA_CUDA=ON"
    else
      echo "cuda_option: warning: a GPU, but no $toolkit: the build is for the CPU" >&2
      echo "-DIDA_CUDA=OFF"
    fi
    ;;
  *) echo "cuda_option: CUDA=$CUDA: expected 0, 1 or nothing" >&2; exit 2 ;;
esac

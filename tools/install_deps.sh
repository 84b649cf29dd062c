#!/usr/bin/env bash
# Installs the packages that are missing on Debian 12 or Ubuntu 24.04, as root or through sudo. Where nothing is
# missing it only asks dpkg and never calls apt. The CUDA toolkit is not in these distributions: tools/cuda_option.sh
# looks for it; where it is built with, nvdisasm comes from PyPI. docs/dependencies.md says what each package is for.
set -euo pipefail

required=(g++ cmake ninja-build git python3 python3-dev python3-venv libtomlplusplus-dev libcli11-dev libfmt-dev
          nlohmann-json3-dev libpcre2-dev libutf8proc-dev libsqlite3-dev libssl-dev libgtest-dev)
fuzz=(clang libclang-rt-14-dev libomp-14-dev)  # with FUZZ=1, for the short fuzz run; named as Debian 12 has them
onednn=(libdnnl2 libdnnl3)  # one of the two: Debian 12 has the first, Ubuntu 24.04 the second

# An optional package that could not be had is noted here and not asked for again, so that a machine that went
# offline after its installs does not wait for the network.
unavailable_note=build/optional-packages-unavailable

say() { echo "install_deps: $*"; }

installed() {  # installed PACKAGE...: prints those that are
  dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null | awk '$1 == "ii" { print $2 }' || true
}

missing_of() {  # missing_of PACKAGE...: prints those that are not installed
  local have
  have=$(installed "$@")
  local package
  for package in "$@"; do
    grep -qxF -- "$package" <<<"$have" || echo "$package"
  done
}

apt() {
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { say "need root or sudo to run: apt-get $*" >&2; return 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

lists_updated=no
update_lists() {
  [[ $lists_updated == no ]] || return 0
  say "updating the package lists"
  apt update
  lists_updated=yes
}

known() { [[ -n $(apt-cache madison "$1" 2>/dev/null) ]]; }

install_packages() {  # the lists at hand first; where they are absent or stale, one update and a second try
  local package
  for package in "$@"; do
    known "$package" || { update_lists; break; }
  done
  apt install -y --no-install-recommends "$@" && return 0
  [[ $lists_updated == no ]] || return 1
  update_lists && apt install -y --no-install-recommends "$@"
}

install_required() {
  local missing
  mapfile -t missing < <(missing_of "${required[@]}")
  ((${#missing[@]})) || return 0
  say "installing ${missing[*]}"
  install_packages "${missing[@]}" || {
    say "could not install: ${missing[*]}; install them by hand and run again" >&2
    exit 1
  }
}

install_optional() {  # install_optional WITHOUT_IT PACKAGE: go on where it cannot be had
  local without_it=$1 package=$2
  say "installing $package (optional)"
  install_packages "$package" && return 0
  say "warning: no $package: $without_it" >&2
  mkdir -p "$(dirname "$unavailable_note")"
  echo "$package" >>"$unavailable_note"
}

noted_unavailable() { [[ -f $unavailable_note ]] && grep -qxF -- "$1" "$unavailable_note"; }

install_onednn() {
  [[ -z $(installed "${onednn[@]}") ]] || return 0
  noted_unavailable "${onednn[0]}" && return 0
  local package
  for package in "${onednn[@]}"; do
    known "$package" && break
  done
  if ! known "$package"; then
    update_lists || true
    for package in "${onednn[@]}"; do known "$package" && break; done
  fi
  known "$package" || package=${onednn[0]}
  install_optional "matrix products use the built-in form, several times slower" "$package"
}

install_nvdisasm() {  # a wheel, unpacked where tools/opcode_census.py looks: no distribution has it, some toolkits do
  local wheel=nvidia-cuda-nvdisasm==13.2.51 folder=build/nvdisasm
  command -v nvdisasm >/dev/null || [[ -x /usr/local/cuda/bin/nvdisasm || -d $folder ]] && return 0
  noted_unavailable nvdisasm && return 0
  python3 -m pip --version >/dev/null 2>&1 || install_optional "no census of opcodes" python3-pip
  say "unpacking $wheel from PyPI into $folder (optional)"
  python3 -m pip install --quiet --no-deps --target "$folder" "$wheel" && return 0
  say "warning: no nvdisasm: the census of opcodes is skipped" >&2
  rm -rf "$folder"
  mkdir -p "$(dirname "$unavailable_note")"
  echo nvdisasm >>"$unavailable_note"
}

main() {
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  if ! command -v dpkg-query >/dev/null; then
    say "no dpkg on this machine: it must already have what docs/dependencies.md lists" >&2
    return 0
  fi
  install_required
  install_onednn
  if [[ -z $(installed ccache) ]] && ! noted_unavailable ccache; then
    install_optional "every build compiles from scratch" ccache
  fi
  if [[ $(tools/cuda_option.sh 2>/dev/null) == -DIDA_CUDA=ON ]]; then
    install_nvdisasm
  fi
  if [[ ${FUZZ:-0} == 1 ]]; then
    for package in $(missing_of "${fuzz[@]}"); do
      noted_unavailable "$package" || install_optional "the short fuzz run is left out" "$package"
    done
  fi
}

main "$@"

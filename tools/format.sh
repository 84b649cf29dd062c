#!/usr/bin/env bash
# format.sh --check|--write: holds every C++ and CUDA source to .clang-format. Other major versions than 14 lay out
# some lines differently, so where 14 is absent the check says so and passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted_major=14
find_clang_format() {
  local candidate
  for candidate in "clang-format-$wanted_major" clang-format; do
    if command -v "$candidate" >/dev/null &&
       "$candidate" --version | grep -qE "version $wanted_major\."; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

mapfile -d '' -t sources < <(find src apps tests bench python -type f \
  \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null | sort -z)
mode=${1:---check}
if ! formatter=$(find_clang_format); then
  echo "format: clang-format $wanted_major is not here, not checked"
  [[ $mode == --check ]]
  exit
fi
case $mode in
  --check)
    if ! complaints=$("$formatter" --dry-run --Werror "${sources[@]}" 2>&1); then
      grep -E ': (error|warning):' <<<"$complaints" | cut -d: -f1 | uniq -c |
        awk '{ printf "format: %s: %d places differ from .clang-format\n", $2, $1 }' >&2
      echo "format: run 'make format'" >&2
      exit 1
    fi
    echo "format: ${#sources[@]} files as .clang-format says"
    ;;
  --write) "$formatter" -i "${sources[@]}" ;;
  *) echo "usage: format.sh --check|--write" >&2; exit 2 ;;
esac

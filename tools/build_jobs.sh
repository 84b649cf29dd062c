#!/usr/bin/env bash
# Prints how many compilers may run at once: one per core, and 1.5 GiB of available memory for each.
set -euo pipefail

cores=$(nproc)
available_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
limit_file=/sys/fs/cgroup/memory.max
if [[ -r $limit_file ]] && limit=$(<"$limit_file") && [[ $limit =~ ^[0-9]+$ ]]; then
  limit_kib=$((limit / 1024))
  ((limit_kib < available_kib)) && available_kib=$limit_kib
fi
jobs=$((available_kib / (1536 * 1024)))
((jobs > cores)) && jobs=$cores
((jobs < 1)) && jobs=1
echo "$jobs"

#!/usr/bin/env bash
# A small model from random weights, trained, evaluated and sampled on the text of this repository; `make quickstart`
# builds first. A second call resumes or finds everything done; `rm -r runs/quickstart*` starts anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=build/ida-train
recipe=recipes/quickstart.toml
run_dir=runs/quickstart
corpus=runs/quickstart-corpus
held_out_every=12  # every 12th file is for validation only

text_files() {  # NUL-separated, sorted by bytes: the same split on every machine
  {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
      git ls-files -z
    else
      find . -type f -not -path './build*' -not -path './runs/*' -not -path './.git/*' -printf '%P\0'
    fi
  } | LC_ALL=C grep -zE '\.(md|h|cpp|cu|cuh|py|toml|sh|txt)$' | LC_ALL=C grep -zv '^tests/golden/' | LC_ALL=C sort -z
}

build_corpus() {
  if [[ -d $corpus ]]; then
    echo "quickstart: the corpus of the last call stays ($corpus)"
    return 0
  fi
  local part=$corpus.part
  rm -rf "$part"
  mkdir -p "$part/train" "$part/valid"
  local index=0 path split
  while IFS= read -r -d '' path; do
    [[ -s $path && ! -L $path ]] || continue
    index=$((index + 1))
    split=train
    ((index % held_out_every == 0)) && split=valid
    cp -- "$path" "$part/$split/$(printf '%04d' "$index")_${path//\//_}"
  done < <(text_files)
  mv "$part" "$corpus"
  echo "quickstart: $index files, $(du -sh --apparent-size "$corpus" | cut -f1) of text, every ${held_out_every}th held out"
}

overrides=()
if ! grep -qw amx_bf16 /proc/cpuinfo && [[ ! -e /dev/nvidia0 ]]; then
  overrides+=(--set precision.recipe=fp32)  # without matrix units bf16 brings no speed
fi

require_falling_loss() {
  python3 - "$run_dir/metrics.jsonl" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as lines:
    losses = [row["loss"] for row in map(json.loads, lines) if "loss" in row]
ratio = losses[-1] / losses[0]
print(f"quickstart: training loss {losses[0]:.3f} -> {losses[-1]:.3f} ({ratio:.2f} of the first)")
sys.exit(0 if ratio < 0.6 else "quickstart: expected the last loss below 0.6 of the first")
PYTHON
}

build_corpus
"$program" train "$recipe" "${overrides[@]}"
require_falling_loss

echo "quickstart: the held-out files"
"$program" eval ppl --model "$run_dir/checkpoints/latest" --window 256 --text "$corpus"/valid/* --out "$run_dir/held_out.json"

echo "quickstart: a sample"
"$program" generate --model "$run_dir/checkpoints/latest" --prompt "// The forward pass " --temperature 0.8 --top-k 40

echo "quickstart: report in $run_dir/report.html"

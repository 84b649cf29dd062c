#!/usr/bin/env python3
"""gpu_table.py FOLDER: the tables of docs/performance.md from a folder of step-SHAPE.json and torch-SHAPE.json."""
import json
import pathlib
import sys

GROUPS = [("matrix products", ("nvjet", "cublasLt", "splitK")), ("attention", ("cudnn", "transpose_f32", "AttentionTileShape", "build_lists", "row_terms")),
          ("optimizer and norm", ("optimizer", "sum_squares", "sum_partials")), ("other own kernels", ("",))]


def group_of(kernel: str) -> str:
    return next(group for group, words in GROUPS if any(word in kernel for word in words))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    print("| shape | tokens/s | step ms | products TFLOP/s | device GiB | PyTorch, same run | ratio |\n|---|---|---|---|---|---|---|")
    records = {p.stem[5:]: json.loads(p.read_text()) for p in sorted(folder.glob("step-*.json"))}
    for shape, own in records.items():
        peer_file = folder / f"torch-{shape}.json"
        best = max(r["tokens_per_s"] for r in json.loads(peer_file.read_text())["results"]) if peer_file.exists() else None
        peer = f"{best:,.0f} | {own['tokens_per_s'] / best:.3f}" if best else "not measured | "
        print(f"| {shape} | {own['tokens_per_s']:,.0f} | {own['median_step_ms']:.1f} | {own['gemm_tflop_per_s']:.0f} | "
              f"{own['device_bytes'] / 2**30:.1f} | {peer} |")
    print("\n| shape | " + " | ".join(group for group, _ in GROUPS) + " | between kernels |\n|---" * 1 + "|---" * (len(GROUPS) + 1) + "|")
    for shape, own in records.items():
        sums = dict.fromkeys((group for group, _ in GROUPS), 0.0)
        for kernel, total in own["kernels"].items():
            sums[group_of(kernel)] += total["ms"]
        idle = own["median_step_ms"] - sum(sums.values())
        print(f"| {shape} | " + " | ".join(f"{ms:.1f}" for ms in sums.values()) + f" | {idle:.1f} |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""gpu_table.py FOLDER [SUITE]: the tables of docs/performance.md, from a folder of step-SHAPE.json and torch-SHAPE.json, and
from the gpu_suite.json SUITE that holds the benches of single ops."""
import json
import pathlib
import sys

GROUPS = [("matrix products", ("nvjet", "cublasLt", "splitK", "cutlass")), ("attention", ("cudnn", "transpose_f32", "AttentionTileShape", "build_lists", "row_terms")),
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
    phases = [("plan and memory", "plan_and_memory"), ("products timed", "timing_products"), ("weights", "weights"),
              ("first step", "first_step")]
    print("\n| shape | " + " | ".join(name for name, _ in phases) + " | sum |\n|---" + "|---" * (len(phases) + 1) + "|")
    for shape, own in records.items():
        print(f"| {shape} | " + " | ".join(f"{own['start_ms'][key]:.0f}" for _, key in phases)
              + f" | {sum(own['start_ms'].values()):.0f} |")
    if len(sys.argv) > 2:
        memory_bound(json.loads(pathlib.Path(sys.argv[2]).read_text())["benches"]["pack"])


def memory_bound(bench: dict) -> None:
    """Ratio to the copy of the same run, an op a row, a problem's width a column."""
    print(f"\ncopy: {bench['ceiling']:,.0f} {bench['unit']}\n")
    ops = {}
    for row in bench["rows"]:
        ops.setdefault((row["op"], row["implementation"]), []).append((row["problem"], row["ratio"]))
    print("| op | ratio to the copy |\n|---|---|")
    for (op, _), problems in ops.items():
        print(f"| {op} | " + "; ".join(f"{ratio:.2f} {problem}" for problem, ratio in problems) + " |")


if __name__ == "__main__":
    main()

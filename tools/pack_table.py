#!/usr/bin/env python3
"""pack_table.py PACK GEMM: the tables of packs in docs/performance.md, from the records of `bench pack` and of
`bench gemm --with-pack`."""
import json
import pathlib
import re
import sys

COLUMNS = ["rows", "columns", "both", "rows drawn", "columns drawn", "both drawn", "both hadamard"]


def packs(bench):
    print(f"copy: {bench['ceiling']:,.0f} {bench['unit']}\n")
    print("| format, cols | " + " | ".join(COLUMNS) + " |\n|---" + "|---" * len(COLUMNS) + "|")
    rows = {}
    for row in bench["rows"]:
        if not row["op"].startswith(("quantize", "dequantize")):
            continue
        width = re.search(r"\[\d+, (\d+)\]", row["problem"]).group(1)
        name = next(n for n in re.findall(r"by (?:rows|columns) (\S+)", row["problem"]) if n != "none")
        op = row["op"].removeprefix("quantize ")
        if row["implementation"] != "own.quantize":
            given = op.endswith(" amax given")
            key = (name + (", amax given" if given else ""), width)
            rows.setdefault(key, {})[op.removesuffix(" amax given")] = row["ratio"]
    for (name, width), ratios in rows.items():
        print(f"| {name}, {width} | " + " | ".join(f"{ratios[c]:.2f}" if c in ratios else "" for c in COLUMNS) + " |")
    record = [(r["problem"].split(" by columns ")[1].split()[0], r["ratio"], r["ms"]) for r in bench["rows"] if r["op"] == "quantize record"]
    print("\nscattered stores: " + "; ".join(f"{name} {ratio:.2f} ({ms:.3f} ms)" for name, ratio, ms in record))


def fused(bench):
    """Fused packs beside the two ops in a row: ratio to the copy of either, and how many times faster the fused one is."""
    rows = {}
    for row in bench["rows"]:
        if row["op"].startswith("pack "):
            name = re.search(r"by rows (\S+)", row["problem"]).group(1)
            rows.setdefault((row["op"].removeprefix("pack "), name), {})[row["implementation"]] = row
    if rows:
        print("\n| op | format | fused | in a row | times as fast |\n|---|---|---|---|---|")
    for (op, name), impls in rows.items():
        tiled, composed = impls.get("own.pack_tiled"), impls["own.composed"]
        cells = [f"{tiled['ratio']:.2f}" if tiled else "", f"{composed['ratio']:.2f}",
                 f"{composed['ms'] / tiled['ms']:.2f}" if tiled else ""]
        print(f"| {op} | {name} | " + " | ".join(cells) + " |")


def unfused(bench):
    """The preparation in passes of its own: ms of each over the shapes, and the step's ratio to bf16."""
    recipes = {}
    for row in bench["rows"]:
        if row.get("unfused_ms"):
            recipes.setdefault(row["recipe"], []).append(row)
    steps = sorted({step for rows in recipes.values() for row in rows for step in row["unfused_ms"]})
    if recipes:
        print("\n| recipe, unfused | " + " | ".join(steps) + " | step | of bf16 |\n|---" + "|---" * (len(steps) + 2) + "|")
    for recipe, rows in recipes.items():
        bf16 = sum(r["step_ms"] for r in bench["rows"] if r["recipe"] == "bf16")
        total = sum(r["unfused_step_ms"] for r in rows)
        print(f"| {recipe} | " + " | ".join(f"{sum(r['unfused_ms'].get(s, 0.0) for r in rows):.2f}" for s in steps) +
              f" | {total:.2f} | {bf16 / total:.3f} |")


def products(bench):
    print("\n| recipe | products | packs | step | of bf16 |\n|---|---|---|---|---|")
    for recipe, total in bench["all_shapes"].items():
        rows = [r for r in bench["rows"] if r["recipe"] == recipe]
        print(f"| {recipe} | {sum(sum(r['product_ms']) for r in rows):.2f} | {sum(sum(r['pack_ms']) for r in rows):.2f} | "
              f"{total['step_ms']:.2f} | {total['ratio_to_bf16']:.3f} |")


if __name__ == "__main__":
    PACK, GEMM = (json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:3])
    packs(PACK)
    fused(PACK)
    products(GEMM)
    unfused(GEMM)

#!/usr/bin/env python3
"""pack_table.py PACK GEMM: the tables of packs in docs/performance.md, from the records of `bench pack --op quantize` and of
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


def products(bench):
    print("\n| recipe | products | packs | step | of bf16 |\n|---|---|---|---|---|")
    for recipe, total in bench["all_shapes"].items():
        rows = [r for r in bench["rows"] if r["recipe"] == recipe]
        print(f"| {recipe} | {sum(sum(r['product_ms']) for r in rows):.2f} | {sum(sum(r['pack_ms']) for r in rows):.2f} | "
              f"{total['step_ms']:.2f} | {total['ratio_to_bf16']:.3f} |")


if __name__ == "__main__":
    packs(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    products(json.loads(pathlib.Path(sys.argv[2]).read_text()))

#!/usr/bin/env python3
"""Runs every golden case in f32 and bf16 and writes the program's records, with the device, into a folder of evidence/.
Prints the table of docs/numerics.md. Exit code 1 when an f32 case is outside its bars.

    python3 tools/record_golden.py build/ida-train evidence/golden-cpu
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def record(program, target, *command):
    """The figures that a command wrote to `target`, and its exit code."""
    done = subprocess.run([str(program), *command, "--out", str(target)], stdout=subprocess.DEVNULL, cwd=ROOT, check=False)
    return json.loads(target.read_text(encoding="utf-8")), done.returncode


def row(name, dtype, figures):
    errors = {check["name"]: check["relative_error"] for check in figures["checks"]}
    gradients = [error for check, error in errors.items() if check.startswith("grad.")]
    columns = [errors["logits"], errors["loss"], max(gradients), errors["losses_adamw"], errors["losses_lion[0..3]"],
               errors["losses_lion[4..7]"]]
    return f"| `{name}` | {dtype} | " + " | ".join(f"{error:.1e}" if error else "0" for error in columns) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    program, folder = arguments.program.resolve(), arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    record(program, folder / "doctor.json", "doctor")
    print("| case | type | logits | loss | worst gradient | AdamW losses | Lion 0 to 3 | Lion 4 to 7 |")
    print("|---|---|---|---|---|---|---|---|")
    passed = True
    for dtype in ("f32", "bf16"):
        for case in sorted(path.parent.name for path in ROOT.glob("tests/golden/*/golden.safetensors")):
            target = folder / f"{case}-{dtype}.json"
            figures, code = record(program, target, "verify", "golden", f"tests/golden/{case}", "--dtype", dtype)
            passed = passed and (code == 0 or dtype != "f32")
            print(row(case, dtype, figures))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

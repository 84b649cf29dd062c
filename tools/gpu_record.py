#!/usr/bin/env python3
"""Which sources of the CUDA room were tested on a GPU as they are: compares them with the hashes in
evidence/*/gpu_suite.json. Names each file that no record covers; the exit code is 0 all the same, since most machines
have no GPU.

A record covers the files whose hash it holds if the room's tests passed in it. The hash is of the whole file: a changed
comment asks for a new record too.
"""
import argparse
import hashlib
import json
import sys
from pathlib import Path

ROOM = "src/backend/cuda"
SUFFIXES = {".cu", ".cuh", ".h", ".cpp"}


def source_hashes(root):
    """{path: sha256} of the room."""
    files = sorted(path for path in (root / ROOM).rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read_records(root):
    """[(path, record)]"""
    paths = sorted(root.glob("evidence/*/gpu_suite.json"))
    return [(path.relative_to(root).as_posix(), json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def passed(record):
    return record.get("tests", {}).get("exit_code") == 0


def check(root):
    """Lines to print."""
    hashes, records = source_hashes(root), read_records(root)
    lines, covering = [], {}
    for path, digest in hashes.items():
        known = [(where, record) for where, record in records if path in record["sources"]]
        same = [(where, record) for where, record in known if record["sources"][path] == digest]
        covered_by = [(where, record) for where, record in same if passed(record)]
        if covered_by:
            where, record = covered_by[-1]
            covering[where] = record["doctor"]["device"]
        elif same:
            lines.append(f"{path}: tests failed in {same[-1][0]}")
        elif known:
            lines.append(f"{path}: changed since {known[-1][0]}")
        else:
            lines.append(f"{path}: in no record of tests on a GPU")
    by = ", ".join(f"{where} ({device})" for where, device in sorted(covering.items())) or "none"
    covered = len(hashes) - len(lines)
    return [*lines, f"gpu_record: {covered} of {len(hashes)} sources of the CUDA room tested as they are, by {by}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    for line in check(parser.parse_args().root.resolve()):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

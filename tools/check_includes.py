#!/usr/bin/env python3
"""Holds the sources to the table of rooms: who may include whom, and which room owns which third-party header.

Every finding is one line `file:line: rule`. Also refused: cycles of includes, headers that no row of the table knows,
instruction sets fixed at build time, paths of one machine, and notes of work left open. Exit code 1 on any finding.
"""
import argparse
import fnmatch
import re
import sys
from pathlib import Path

# Room -> rooms whose headers it may include. What those may include is allowed too, since their headers bring it in.
ROOMS = {
    "base": [],
    "formats": ["base"],
    "config": ["base"],
    "runtime": ["base", "config"],
    "text": ["base", "config"],
    "data": ["text"],
    "ops": ["formats", "runtime"],
    "precision": ["ops", "config"],
    "comm": ["runtime", "config"],
    "metrics": ["base"],
    "evidence": ["base"],
    "model": ["ops", "config"],
    "optim": ["ops", "formats", "config"],
    "checkpoint": ["text", "formats"],
    "eval": ["model", "precision", "text", "checkpoint", "comm"],
    "train": ["data", "precision", "comm", "metrics", "evidence", "model", "optim", "checkpoint", "eval"],
    "report": ["evidence", "metrics"],
    "backend/cpu": ["runtime", "ops", "comm"],
    "backend/cuda": ["runtime", "ops", "comm", "backend/cuda/device"],
    "backend/no_cuda": ["runtime", "ops", "comm"],
    "backend/cuda/device": ["formats"],
    "python": ["checkpoint", "backend/cpu"],  # the bindings, python/bindings/
}

# Single headers a room may include although the rest of their room is closed to it.
HEADERS = {
    # what a Hugging Face folder says about the model
    "checkpoint": ["model/param_spec.h", "model/model_config.h", "model/hf_config.h", "model/rope_table.h"],
    # the one header that both answer: in a build without CUDA the other room stands in
    "backend/no_cuda": ["backend/cuda/cuda_backend.h"],
}

# Third-party header pattern -> rooms (or "apps") that own it; "*" = any. The first match counts.
THIRD_PARTY = [
    ("fmt/*", ["*"]),
    ("nlohmann/json_fwd.hpp", ["*"]),
    ("nlohmann/*", ["base", "text", "data", "metrics", "evidence", "model", "checkpoint", "train", "eval", "report",
                    "backend/cuda", "apps"]),
    ("toml++/*", ["config"]),
    ("CLI/*", ["apps"]),
    ("nanobind/*", ["python"]),
    ("sqlite3.h", ["evidence"]),
    ("pcre2.h", ["text"]),
    ("utf8proc.h", ["text"]),
    ("openssl/*", ["base"]),
    ("omp.h", ["base", "backend/cpu"]),
    ("immintrin.h", ["backend/cpu"]),
    ("cpuid.h", ["backend/cpu", "runtime"]),
    ("dnnl*", ["backend/cpu"]),
    ("oneapi/*", ["backend/cpu"]),
    ("mpi.h", ["backend/cpu"]),
    *[(pattern, ["backend/cuda", "backend/cuda/device"])
      for pattern in ("cuda*", "cublas*", "cudnn*", "cupti*", "nccl.h", "nvml.h", "mma.h", "cooperative_groups*",
                      "cub/*", "cute/*", "cutlass/*", "thrust/*")],
    *[(pattern, ["*"]) for pattern in ("unistd.h", "fcntl.h", "dlfcn.h", "link.h", "cxxabi.h", "pthread.h", "signal.h",
                                       "sched.h", "poll.h", "spawn.h", "glob.h", "getopt.h", "sys/*", "linux/*")],
]

# Slow or invasive headers: they stay in .cpp files. nvcc chokes on some of them.
SOURCE_ONLY = ["nlohmann/json.hpp", "toml++/*", "CLI/*", "sqlite3.h", "pcre2.h", "openssl/*", "dnnl*", "oneapi/*"]
NOT_IN_CUDA = ["fmt/*", "nlohmann/*", "toml++/*", "CLI/*"]

CODE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
STANDARD = re.compile(r"^[a-z_0-9]+$")  # <vector>, <cstdint>

TREES = ["src", "apps", "tests", "bench", "tools", "python", "recipes", "docs", "cmake"]
ROOT_FILES = ["CMakeLists.txt", "CMakePresets.json", "Makefile", "README.md", "CONTRIBUTING.md"]
TEXT_SUFFIXES = CODE_SUFFIXES | {".py", ".sh", ".txt", ".cmake", ".json", ".toml", ".md", ""}
SELF = {"tools/check_includes.py", "tests/tools/test_check_includes.py"}  # they spell what they look for
OPEN_NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~$}*>)-])/(root|home|work)/\w")
TEMPORARY_PATH = re.compile(r"(?<![\w.~$}*>)-])/tmp/")
FIXED_ISA = re.compile(r"-m(arch|tune)=native")


def reachable(room):
    """The room and every room its includes may bring in."""
    seen, open_rooms = set(), [room]
    while open_rooms:
        name = open_rooms.pop()
        if name not in seen:
            seen.add(name)
            open_rooms.extend(ROOMS[name])
    return seen


def room_of(path):
    """Longest room that is a prefix of a path relative to src/; None where there is none."""
    names = [room for room in ROOMS if path.startswith(room + "/")]
    return max(names, key=len, default=None)


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def includes_of(path):
    """(line number, quote, header) of each include."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1), found.group(2)


def table_findings():
    """The table itself: known names, and no two rooms that reach each other."""
    for room, allowed in ROOMS.items():
        for other in allowed:
            if other not in ROOMS:
                yield f"tools/check_includes.py:1: the table lets {room} include {other}, which is no room"
            elif room in reachable(other):
                yield f"tools/check_includes.py:1: the table makes a cycle through {room} and {other}"


def own_header_finding(room, header, source_root):
    """Why a room may not include one of our headers, or None. room None = apps: anything."""
    if not (source_root / header).is_file():
        return f'"{header}" is not below src/: write own headers from the include root, third-party ones in <>'
    target = room_of(header)
    if target is None:
        return f'"{header}" lies in no room of the table in tools/check_includes.py'
    if room is None or target in reachable(room) or header in HEADERS.get(room, []):
        return None
    return f'{room} may not include {target} ("{header}"): allowed are {", ".join(sorted(reachable(room)))}'


def third_party_finding(room, header, suffix):
    """Why a room may not include a <header>, or None."""
    if STANDARD.match(header):
        return None
    if suffix in {".h", ".cuh"} and matches(header, SOURCE_ONLY):
        return f"<{header}> belongs in a .cpp file, not in a header"
    if suffix in {".cu", ".cuh"} and matches(header, NOT_IN_CUDA):
        return f"<{header}> may not reach nvcc"
    for pattern, owners in THIRD_PARTY:
        if fnmatch.fnmatchcase(header, pattern):
            if "*" in owners or (room or "apps") in owners:
                return None
            return f"<{header}> is confined to {', '.join(owners)}"
    return f"<{header}> has no row in the table of third-party headers in tools/check_includes.py"


def include_findings(root):
    """Breaches of the table in src/, apps/ and python/, and cycles. Tests may include anything."""
    source_root = root / "src"
    graph = {}
    for tree in ("src", "apps", "python"):
        for path in sorted((root / tree).rglob("*")):
            if path.suffix not in CODE_SUFFIXES:
                continue
            where = path.relative_to(root).as_posix()
            inside = path.relative_to(source_root).as_posix() if tree == "src" else None
            room = room_of(inside) if inside else "python" if tree == "python" else None
            if inside and room is None:
                yield f"{where}:1: lies in no room of the table in tools/check_includes.py"
                continue
            edges = graph.setdefault(inside, []) if inside else []
            for number, quote, header in includes_of(path):
                if quote == '"' and not inside and (path.parent / header).is_file():
                    continue
                if quote == '"':
                    finding = own_header_finding(room, header, source_root)
                    edges.append((header, number))
                else:
                    finding = third_party_finding(room, header, path.suffix)
                if finding:
                    yield f"{where}:{number}: {finding}"
    yield from cycle_findings(graph)


def cycle_findings(graph):
    """One finding a cycle of includes, by depth-first search over files."""
    state = {}  # file -> "open" while on the path, "done" after

    def visit(name, path):
        state[name] = "open"
        for header, number in graph.get(name, []):
            if state.get(header) == "open":
                cycle = path[path.index(header):] + [header]
                yield f"src/{name}:{number}: include cycle {' -> '.join(cycle)}"
            elif header not in state:
                yield from visit(header, path + [header])
        state[name] = "done"

    for name in sorted(graph):
        if name not in state:
            yield from visit(name, [name])


def text_files(root):
    for name in ROOT_FILES:
        if (root / name).is_file():
            yield root / name
    for tree in TREES:
        for path in sorted((root / tree).rglob("*")):
            relative = path.relative_to(root).as_posix()
            if (path.is_file() and path.suffix in TEXT_SUFFIXES and relative not in SELF
                    and not relative.startswith("tests/golden/") and "__pycache__" not in relative):
                yield path


def text_findings(root):
    """Words and paths that no tracked text may hold."""
    for path in text_files(root):
        where = path.relative_to(root).as_posix()
        product = where.startswith(("src/", "apps/", "python/"))
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if OPEN_NOTE.search(line) and path.suffix != ".md":
                yield f"{where}:{number}: work left open: finish it or refuse it with a reason"
            if MACHINE_PATH.search(line) or (product and TEMPORARY_PATH.search(line)):
                yield f"{where}:{number}: path of one machine: make it relative or ask the system"
            if FIXED_ISA.search(line) and path.suffix != ".md":
                yield f"{where}:{number}: kernels are chosen by instruction set at run time, never fixed at build time"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    findings = [*table_findings(), *include_findings(root), *text_findings(root)]
    for finding in findings:
        print(finding)
    print(f"check_includes: {len(findings)} findings" if findings else "check_includes: every include as the table says")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

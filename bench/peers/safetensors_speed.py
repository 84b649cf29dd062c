#!/usr/bin/env python3
"""safetensors_speed.py CHECKPOINT REPEATS: the Python package `safetensors` (with numpy) loads and saves the tensors of a
checkpoint folder that bench/checkpoint_bench.cpp wrote. Prints JSON. The package neither hashes nor syncs; "_synced" adds
an fsync per file, "_synced_hashed" also SHA-256 of what was written, by hashlib.
"""
import hashlib
import json
import os
import pathlib
import statistics
import sys
import time

import safetensors
from safetensors import safe_open
from safetensors.numpy import save_file

NAMES = ("model.safetensors", "optim.safetensors")


def load(folder):
    tensors = {}
    for name in NAMES:  # numpy has no bfloat16: those bytes are taken as they are
        data = (folder / name).read_bytes()
        tensors[name] = safetensors.deserialize(data)
    return tensors


def as_arrays(tensors):
    import numpy

    return {name: {key: numpy.frombuffer(value["data"], dtype=numpy.uint8) for key, value in items}
            for name, items in tensors.items()}


def save(arrays, folder, sync, hashed):
    for name, items in arrays.items():
        path = folder / name
        save_file(items, str(path))
        if sync:
            with open(path, "rb+") as file:
                os.fsync(file.fileno())
        if hashed:
            with open(path, "rb") as file:
                hashlib.file_digest(file, "sha256").hexdigest()


def load_by_map(folder):
    for name in ("optim.safetensors",):
        with safe_open(str(folder / name), framework="numpy") as file:
            for key in file.keys():
                file.get_tensor(key)


def median_s(repeats, work):
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def main():
    folder, repeats = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    size = sum((folder / name).stat().st_size for name in NAMES)
    arrays = as_arrays(load(folder))
    out = folder.parent / "peer"
    out.mkdir(exist_ok=True)
    optim_size = (folder / "optim.safetensors").stat().st_size
    figures = {
        "package": f"safetensors {safetensors.__version__}",
        "bytes": size,
        "repeats": repeats,
        "load_mb_per_s": size / median_s(repeats, lambda: load(folder)) / 1e6,
        "load_f32_by_map_mb_per_s": optim_size / median_s(repeats, lambda: load_by_map(folder)) / 1e6,
    }
    for key, sync, hashed in (("save", False, False), ("save_synced", True, False), ("save_synced_hashed", True, True)):
        figures[f"{key}_mb_per_s"] = size / median_s(repeats, lambda: save(arrays, out, sync, hashed)) / 1e6
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

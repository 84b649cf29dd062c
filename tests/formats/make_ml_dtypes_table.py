#!/usr/bin/env python3
"""Writes ml_dtypes.tsv: what the package ml_dtypes makes of chosen f32 values, and of every code.

    pip install ml_dtypes && python3 tests/formats/make_ml_dtypes_table.py > tests/formats/ml_dtypes.tsv

Lines: format, "decode", code, f32 bits of its value; format, "encode", f32 bits, code. NaN is left out, and in `encode` what
lies beyond the largest value, where the package does not saturate.
"""
import ml_dtypes
import numpy as np

FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 256, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 256, 57344.0),
           "e2m1": (ml_dtypes.float4_e2m1fn, 16, 6.0)}


def bits(x):
    return int(np.float32(x).view(np.uint32))


def main():
    print(f"# ml_dtypes {ml_dtypes.__version__}")
    generator = np.random.default_rng(1)
    for name, (dtype, codes, largest) in FORMATS.items():
        values = np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float32)
        for code, value in enumerate(values):
            if not np.isnan(value):
                print(f"{name}\tdecode\t{code}\t{bits(value)}")
        finite = np.unique(values[np.isfinite(values)])
        middles = (finite[1:] + finite[:-1]) / 2
        ties = np.concatenate([middles, np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(-np.inf))])
        random = (generator.standard_normal(300) * np.exp2(generator.uniform(-20, 16, 300))).astype(np.float32)
        for x in np.concatenate([ties, random]).astype(np.float32):
            if abs(x) <= largest:
                print(f"{name}\tencode\t{bits(x)}\t{int(np.array(x).astype(dtype).view(np.uint8)) & (codes - 1)}")
    for code, value in enumerate(np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)):
        if not np.isnan(value):
            print(f"ue8m0\tdecode\t{code}\t{bits(value)}")


if __name__ == "__main__":
    main()

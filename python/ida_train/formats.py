"""Block formats of low-precision training on numpy arrays: the CPU definition of the engine's `quantize` and `dequantize`.

A matrix is cut into groups that share a scale; an element is a code of 8 or 4 bits; value = element * scale *
tensor_scale. The rules are in docs/formats.md.
"""
import operator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ida_train.native import _engine
from ida_train.native.arrays import as_f32

FormatName = Literal["fp8_tensor", "fp8_tensor_e5m2", "fp8_row", "fp8_row_e5m2", "fp8_vec128", "fp8_vec128_e5m2",
                     "fp8_block128", "fp8_block128_e5m2", "mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4"]
FORMATS: tuple[str, ...] = get_args(FormatName)
_MAX_U64 = 2**64 - 1


@dataclass(frozen=True, eq=False)
class Quantized:
    """A quantised array. The matrix that was quantised is [rows, k]: the array with its leading dimensions folded, or its
    transpose for axis 0; k is the dimension that blocks lie along and a product sums over."""
    format: str
    shape: tuple[int, ...]  # of the array
    axis: int  # -1, or 0 for the transpose
    codes: NDArray[np.uint8]  # [rows, k], or [rows, ceil(k / 2)] of 4-bit codes, the first of two in the low half
    scales: NDArray[np.uint8] | NDArray[np.float32]  # ue8m0 (mx*), e4m3 (nvfp4) or f32 (fp8_*)
    tensor_scale: NDArray[np.float32]  # [1]
    layout: str = "rows"  # of the scales: "rows" or "product"
    hadamard_signs: int | None = None  # of the Hadamard transform the values went through, bit i negates element i

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """(rows, k) of the matrix that was quantised."""
        rows, cols = _folded(self.shape)
        return (cols, rows) if self.axis == 0 else (rows, cols)

    def unpacked_codes(self) -> NDArray[np.uint8]:
        """One code a byte, [rows, k]."""
        return _engine.unpack_nibbles(self.codes, self.matrix_shape[1]) if self.format in ("mxfp4", "nvfp4") else self.codes


def quantize(array: ArrayLike, format: FormatName, *, axis: int = -1,
             scale_rule: Literal["ceil", "floor"] | None = None,
             rounding: Literal["nearest_even", "stochastic"] = "nearest_even",
             seed: int = 0, step: int = 0, tensor: int = 0,
             two_level: bool | None = None, square_blocks: bool | None = None, power_of_two: bool | None = None,
             four_over_six: bool | None = None, hadamard: Literal["fixed", "seeded"] | None = None,
             prescale: int | Literal["auto"] | None = None, layout: Literal["rows", "product"] = "rows") -> Quantized:
    """Quantises an f32, f16 or bfloat16 array in one of FORMATS, bit for bit as the engine does.

    axis            dimension that blocks lie along: -1, or 0 of a matrix, which is quantised as its transpose
    scale_rule      mx*: "ceil", the smallest power of two that saturates nothing (default), or "floor" of OCP
    rounding        "nearest_even", or "stochastic" drawn from (seed, tensor, step) and the element's place
    two_level       nvfp4: with an f32 scale of the tensor (default)
    square_blocks   mx* 32 x 32, nvfp4 16 x 16: a matrix and its transpose get the same values
    power_of_two    fp8_*: f32 scales rounded up to powers of two
    four_over_six   nvfp4: a block may map its maximum to 4 where that is closer
    hadamard        transform over 16 consecutive elements first, with fixed signs or with those of (seed, step)
    prescale        exponent of a power of two to multiply with first, -126 to 126, undone by tensor_scale; "auto":
                    round(log2(4 / amax))
    layout          of the scales: "rows", or "product" as matrix units read them

    ValueError for an empty array, an unknown name or a choice the format does not have; TypeError for other types."""
    values = as_f32(array, "array")
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"array: expected at least one dimension and one element, got shape {list(values.shape)}")
    by_cols = _is_first_axis(axis, values.ndim)
    matrix = values.reshape(_folded(values.shape))
    for what, number in (("seed", seed), ("step", step), ("tensor", tensor)):
        if not 0 <= operator.index(number) <= _MAX_U64:
            raise ValueError(f"{what}: expected 0 to 2^64 - 1, got {number}")
    if isinstance(prescale, str):
        if prescale != "auto":
            raise ValueError(f"prescale: expected an exponent or 'auto', got '{prescale}'")
        prescale = _engine.prescale_exponent(matrix)
    elif prescale is not None and not -126 <= operator.index(prescale) <= 126:
        raise ValueError(f"prescale: expected -126 to 126, got {prescale}")
    codes, scales, tensor_scale, signs = _engine.quantize(
        matrix, format=format, by_cols=by_cols, layout=layout, scale_rule=scale_rule, rounding=rounding, hadamard=hadamard,
        two_level=two_level, square_blocks=square_blocks, power_of_two=power_of_two, four_over_six=four_over_six, seed=seed,
        step=step, tensor=tensor, prescale=prescale)
    return Quantized(format=format, shape=values.shape, axis=0 if by_cols else -1, codes=codes, scales=scales,
                     tensor_scale=tensor_scale, layout=layout, hadamard_signs=None if signs < 0 else signs)


def dequantize(quantized: Quantized, *, undo_hadamard: bool = True) -> NDArray[np.float32]:
    """The values as f32 in the shape of the array that was quantised: element * scale * tensor_scale. A Hadamard transform
    is undone, in f32, unless the transformed values are asked for. ValueError where the arrays do not fit the shape."""
    rows, k = quantized.matrix_shape
    signs = quantized.hadamard_signs if undo_hadamard and quantized.hadamard_signs is not None else -1
    for what in ("codes", "scales", "tensor_scale"):
        array, rank = getattr(quantized, what), 1 if what == "tensor_scale" else 2
        if not isinstance(array, np.ndarray) or array.ndim != rank:
            raise TypeError(f"{what}: expected a numpy array of {rank} dimension{'s' if rank > 1 else ''}")
        types = {"codes": (np.uint8,), "scales": (np.uint8, np.float32), "tensor_scale": (np.float32,)}[what]
        if array.dtype not in types:
            raise TypeError(f"{what}: expected {' or '.join(np.dtype(t).name for t in types)}, got {array.dtype}")
    values = _engine.dequantize(
        np.ascontiguousarray(quantized.codes), np.ascontiguousarray(quantized.scales), quantized.tensor_scale,
        format=quantized.format, rows=rows, k=k, layout=quantized.layout, signs=signs)
    return (np.ascontiguousarray(values.T) if quantized.axis == 0 else values).reshape(quantized.shape)


def _folded(shape: tuple[int, ...]) -> tuple[int, int]:
    """(product of the leading dimensions, last dimension)"""
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    return rows, shape[-1]


def _is_first_axis(axis: int, ndim: int) -> bool:
    if operator.index(axis) in (-1, ndim - 1):
        return False
    if ndim == 2 and axis in (0, -2):
        return True
    raise ValueError(f"axis: expected the last dimension, or the first of a matrix; got {axis} of {ndim} dimensions")

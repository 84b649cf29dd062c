"""The MXFP8 single file: weights at rest as a safetensors file of E4M3 codes with a UE8M0 scale for every 32 elements.

- `__metadata__` says `weights_dtype = MXFP8_E4M3_UE8M0_K32`.
- A quantised tensor `name` has dtype F8_E4M3 (or U8) and a companion `name.scale`, U8 (or F8_E8M0) [ceil(n / 32)]: a
  byte for every 32 consecutive elements of the flat row-major tensor; the last block may be shorter.
- value = e4m3 * max(2^(byte - 127), 1e-30). Byte 255 (NaN) is refused.
- The projections (`PROJECTIONS`) lie as [in, out], the transpose of what Hugging Face's models hold.
- All other tensors are ordinary ones, BF16 as the writer leaves them.
"""
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ida_train.errors import CorruptFileError
from ida_train.native import _engine
from ida_train.native.arrays import as_f32, widen_bf16

WEIGHTS_DTYPE: str = _engine.MXFP8_FLAT_NAME
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_BLOCK = 32
_NAN_SCALE = 0xFF
_NUMPY_DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
                 "F32": "<f4", "C64": "<c8", "F64": "<f8", "I64": "<i8", "U64": "<u8"}


def is_projection(name: str) -> bool:
    """Whether a tensor of this name is a matrix that the file holds as [in, out]."""
    parts = name.split(".")
    return len(parts) >= 2 and parts[-1] == "weight" and parts[-2] in PROJECTIONS


def encode_mxfp8(array: ArrayLike) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(codes, scales) of an array's elements in row-major order: codes of the array's shape, scales [ceil(n / 32)].

    The scale is the smallest power of two, 2^-126 or more, that saturates nothing; byte 0 for a block of zeros and for
    one that holds NaN or infinity. Codes are rounded to nearest even; what is not finite becomes NaN with its sign."""
    values = as_f32(array, "encode_mxfp8")
    codes, scales = _engine.encode_mxfp8_flat(values.reshape(-1))
    return codes.reshape(values.shape), scales


def decode_mxfp8(codes: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The values of `encode_mxfp8`'s result, in the shape of `codes`. ValueError where the sizes do not belong together or
    a scale is NaN."""
    for what, array in (("codes", codes), ("scales", scales)):
        if not isinstance(array, np.ndarray) or array.dtype != np.uint8:
            raise TypeError(f"{what}: expected a numpy array of uint8, got {getattr(array, 'dtype', type(array).__name__)}")
    if scales.shape != (-(-codes.size // _BLOCK),):
        raise ValueError(f"scales: expected shape ({-(-codes.size // _BLOCK)},) for {codes.size} codes, got {scales.shape}")
    nan_scales = np.flatnonzero(scales == _NAN_SCALE)
    if nan_scales.size:
        raise ValueError(f"scale {nan_scales[0]} is NaN (255)")
    values = _engine.decode_mxfp8_flat(np.ascontiguousarray(codes).reshape(-1), np.ascontiguousarray(scales))
    return values.reshape(codes.shape)


def read_mxfp8_safetensors(path: str | os.PathLike[str], *, native_orientation: bool = False) -> dict[str, NDArray[Any]]:
    """The tensors of an MXFP8 single file by name, in the order of the file, without the scales.

    Quantised and BF16 tensors come as f32, exactly; others in their own type. The projections are transposed back to
    [out, in], as a Hugging Face model holds them, unless `native_orientation` asks for [in, out] as stored.
    CorruptFileError for anything that breaks the format, OSError where the file cannot be read."""
    name_of_file = os.fspath(path)
    os.stat(name_of_file)  # FileNotFoundError and its kin, with Python's own words
    metadata, entries = _engine.read_safetensors(name_of_file)
    stated = metadata.get("weights_dtype")
    if stated != WEIGHTS_DTYPE:
        raise CorruptFileError(f"{name_of_file}: __metadata__.weights_dtype: expected {WEIGHTS_DTYPE}, "
                               f"got {'nothing' if stated is None else stated}")
    stored = {name: (dtype, tuple(shape), raw) for name, dtype, shape, raw in entries}
    companions = _companions(name_of_file, stored)
    tensors: dict[str, NDArray[Any]] = {}
    for name, (dtype, shape, raw) in stored.items():
        if name in companions.values():
            continue
        if name in companions:
            values: NDArray[Any] = _decode(name_of_file, name, raw, stored[companions[name]][2]).reshape(shape)
        else:
            values = _plain(name_of_file, name, dtype, raw).reshape(shape)
        if is_projection(name) and not native_orientation:
            if len(shape) != 2:
                raise CorruptFileError(f"{name_of_file}: {name}: expected a matrix [in, out], got shape {list(shape)}")
            values = np.ascontiguousarray(values.T)
        tensors[name] = values
    return tensors


def write_mxfp8_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, ArrayLike], *,
                            native_orientation: bool = False, metadata: Mapping[str, str] | None = None) -> None:
    """Writes an MXFP8 single file: projections quantised and stored as [in, out], everything else rounded to BF16.

    `tensors` holds f32, f16 or bfloat16 arrays under Hugging Face's names, projections as [out, in], or as [in, out] with
    `native_orientation`. `metadata` is added to the file's. The file appears whole or not at all. ValueError for values
    that are not finite, for names that collide, for projections that are no matrices."""
    notes = {"format": "pt", **(metadata or {}), "weights_dtype": WEIGHTS_DTYPE}
    if metadata and metadata.get("weights_dtype", WEIGHTS_DTYPE) != WEIGHTS_DTYPE:
        raise ValueError(f"metadata: weights_dtype is {WEIGHTS_DTYPE} in this file, got {metadata['weights_dtype']}")
    entries: dict[str, tuple[str, list[int], NDArray[np.uint8]]] = {}

    def add(name: str, dtype: str, shape: tuple[int, ...], raw: NDArray[Any]) -> None:
        if name in entries:
            raise ValueError(f"{name}: the file would hold two tensors of this name")
        entries[name] = (dtype, list(shape), raw.reshape(-1).view(np.uint8))

    for name, array in tensors.items():
        values = as_f32(array, name)
        if not np.isfinite(values).all():
            raise ValueError(f"{name}: holds values that are not finite; the file cannot keep their neighbours")
        if not is_projection(name):
            add(name, "BF16", values.shape, _engine.round_bf16(values.reshape(-1)))
            continue
        if values.ndim != 2:
            raise ValueError(f"{name}: expected a matrix, got shape {list(values.shape)}")
        stored = values if native_orientation else np.ascontiguousarray(values.T)
        codes, scales = _engine.encode_mxfp8_flat(stored.reshape(-1))
        add(name, "F8_E4M3", stored.shape, codes)
        add(f"{name}.scale", "U8", scales.shape, scales)
    _engine.write_safetensors(os.fspath(path), [(name, *entry) for name, entry in entries.items()], notes)


def data_sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the data section, hexadecimal: every byte after the header. Equal where two files hold the same bytes under
    other names, as a master and its export do."""
    with open(path, "rb") as file:
        file.seek(int.from_bytes(file.read(8), "little"), os.SEEK_CUR)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _companions(path: str, stored: Mapping[str, tuple[str, tuple[int, ...], NDArray[np.uint8]]]) -> dict[str, str]:
    """Name of the scale of every quantised tensor; each must be there, of the right type and size, and have its tensor."""
    companions: dict[str, str] = {}
    for name, (dtype, _, raw) in stored.items():
        scale_name = f"{name}.scale"
        if dtype == "F8_E4M3" or dtype == "U8" and scale_name in stored:
            if scale_name not in stored:
                raise CorruptFileError(f"{path}: {name}: quantised, but there is no {scale_name}")
            scale_dtype, scale_shape, _ = stored[scale_name]
            wanted = (-(-raw.size // _BLOCK),)
            if scale_dtype not in ("U8", "F8_E8M0"):
                raise CorruptFileError(f"{path}: {scale_name}: expected U8, got {scale_dtype}")
            if scale_shape != wanted:
                raise CorruptFileError(f"{path}: {scale_name}: expected shape {list(wanted)} for {raw.size} elements, "
                                       f"got {list(scale_shape)}")
            companions[name] = scale_name
    scales = set(companions.values())
    for name, (dtype, _, _) in stored.items():
        if name.endswith(".scale") and dtype in ("U8", "F8_E8M0") and name not in scales:
            raise CorruptFileError(f"{path}: {name}: a scale without its quantised tensor")
    return companions


def _decode(path: str, name: str, codes: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.float32]:
    try:
        return decode_mxfp8(codes, scales)
    except ValueError as error:
        raise CorruptFileError(f"{path}: {name}.scale: {error}") from error


def _plain(path: str, name: str, dtype: str, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """The elements of a tensor that is not quantised, in memory of their own."""
    if dtype == "BF16":
        return widen_bf16(raw.copy().view("<u2"))
    if dtype not in _NUMPY_DTYPES:
        raise CorruptFileError(f"{path}: {name}: {dtype} is not an element type of this format")
    return raw.copy().view(_NUMPY_DTYPES[dtype])

"""Arrays of users as the engine takes them."""
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ida_train.native import _engine


def widen_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The f32 values of bf16 bit patterns, same shape."""
    return _engine.widen_bf16(np.ascontiguousarray(bits).reshape(-1)).reshape(bits.shape)


def as_f32(array: ArrayLike, what: str) -> NDArray[np.float32]:
    """The values as row-major f32. Taken are f32, f16 and ml_dtypes.bfloat16, all exact; others are a TypeError, since
    rounding to f32 first and to a smaller format then is not rounding once."""
    values = np.asarray(array)
    if values.dtype.name == "bfloat16":
        return widen_bf16(values.view(np.uint16))
    if values.dtype not in (np.float32, np.float16):
        raise TypeError(f"{what}: expected float32, float16 or bfloat16, got {values.dtype}; convert it first")
    return np.asarray(values, dtype="=f4", order="C")

"""What every kernel shares: the array alias, its error, and the checks of shapes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class KernelError(ValueError):
    """An array has a shape, dtype or content that the kernel does not take: one line that says which."""


def as_f32(name: str, array: Array, *shape: int | None) -> Array:
    """`array` as float32, C-contiguous, of `shape` (None: any length); a view where it is that already.

    Raises:
        KernelError: not floating point, or another shape.
    """
    if array.dtype == np.float32:
        if array.shape == shape and array.flags.c_contiguous:
            return array
    else:
        if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
            raise KernelError(f"{name} has dtype {array.dtype}; a floating-point array is needed")
        array = array.astype(np.float32)
    check_shape(name, array, *shape)
    return np.ascontiguousarray(array)


def check_shape(name: str, array: Array, *shape: int | None) -> None:
    """Raises KernelError unless `array` has `shape`; None stands for any length."""
    if array.shape == shape:
        return
    if array.ndim != len(shape) or any(
        want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
    ):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise KernelError(f"{name} has shape {list(array.shape)}; [{wanted}] is needed")


def check_dtype(name: str, array: Array, *dtypes: str) -> None:
    """Raises KernelError unless `array` has one of `dtypes`, by name."""
    if array.dtype.name not in dtypes:
        raise KernelError(f"{name} has dtype {array.dtype}; {' or '.join(dtypes)} is needed")


def bf16_bits(name: str, array: Array) -> Array:
    """A bfloat16 array (ml_dtypes, or bits as uint16) as C-contiguous uint16, copied only if it must be."""
    if array.dtype != np.uint16:
        check_dtype(name, array, "bfloat16")
    return np.ascontiguousarray(array).view(np.uint16)


def bf16_to_f32(bits: Array) -> Array:
    """bfloat16 bits (uint16) to float32 of the same shape; exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)

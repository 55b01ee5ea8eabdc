"""The public face of Kimi delta attention: checks, then the fastest path there is.

H heads, K key channels, V value channels, T tokens, all float32. `q` arrives normalised and scaled, `k`
normalised, `g` is the log of the decay per key channel (<= 0, any size), `beta` the learning rate. `state`
[H, K, V] must be float32 and contiguous: it is changed in place. Wrong shapes or dtypes raise KernelError.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, KernelError
from ..native.library import library
from . import native, plain


def _checked(state: Array, inputs: tuple[Array, ...], tokens: tuple[int, ...]) -> tuple[Array, ...]:
    if state.ndim != 3 or state.dtype != np.float32 or not state.flags.c_contiguous:
        raise KernelError(f"state: expected contiguous float32 [H, K, V], got {state.dtype}{state.shape}")
    if not state.flags.writeable:
        raise KernelError("state: it is changed in place and must be writeable")
    heads, keys, values = state.shape
    shapes = ((heads, keys), (heads, keys), (heads, values), (heads, keys), (heads,))
    for name, array, shape in zip(("q", "k", "v", "g", "beta"), inputs, shapes, strict=True):
        if array.shape != (*tokens, *shape):
            raise KernelError(f"{name}: expected shape {(*tokens, *shape)}, got {array.shape}")
    return tuple(np.ascontiguousarray(array, np.float32) for array in inputs)


def decode_step(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array) -> Array:
    """One token: q k g [H, K], v [H, V], beta [H]. Returns o [H, V]; the state moves on by one token."""
    inputs = _checked(state, (q, k, v, g, beta), ())
    if loaded := library():
        return native.decode_step(loaded, state, inputs)
    return plain.decode_step(state, *inputs)


def recurrent(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array) -> Array:
    """T tokens one after the other: q k g [T, H, K], v [T, H, V], beta [T, H]. Returns o [T, H, V]."""
    inputs = _checked(state, (q, k, v, g, beta), q.shape[:1])
    if (loaded := library()) and state.shape[1] <= native.MOST_KEYS:
        return native.prefill(loaded, state, inputs, 1, 1)
    return plain.recurrent(state, *inputs)


def chunked(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array, chunk_size: int = 16) -> Array:
    """The same as `recurrent`, `chunk_size` tokens at a time: for prefill."""
    if chunk_size < 1:
        raise KernelError(f"chunk_size is {chunk_size}; at least one token is needed")
    inputs = _checked(state, (q, k, v, g, beta), q.shape[:1])
    if (loaded := library()) and state.shape[1] <= native.MOST_KEYS:
        return native.prefill(loaded, state, inputs, int(chunk_size), 4)
    return plain.chunked(state, *inputs, chunk_size=int(chunk_size))

"""The router, and the grouped product of experts: tokens gathered by expert, each read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .. import dense, mxfp4
from ..arrays import Array, KernelError, as_f32, check_shape
from ..mxfp4 import native
from ..mxfp4.ops import check_weight
from ..native.library import library, pointer
from .activation import Activation, sigmoid

Weight = Array | dense.Int8Weight | tuple[Array, Array]
"""One matrix [R, C]: float32 or bfloat16, eight bits, or MXFP4 as (packed, scales)."""


@dataclass(frozen=True)
class Packed:
    """An expert of MXFP4 matrices for the native call."""

    inner: int
    columns: int
    addresses: Array
    """uintp[6]: packed and scales of w1, w2, w3."""
    parts: list[Array]
    """What the addresses point at."""


@dataclass(frozen=True)
class Expert:
    """w2 act(w1 x, w3 x): w1 (gate) and w3 (up) are [I, C], w2 (down) is [C, I]."""

    w1: Weight
    w2: Weight
    w3: Weight

    @cached_property
    def packed(self) -> Packed | None:
        """What a native call needs where all three are MXFP4, None for other kinds; worked out once.

        Raises:
            KernelError: MXFP4 matrices that do not fit each other.
        """
        parts: list[Array] = []
        for weight in (self.w1, self.w2, self.w3):
            if not isinstance(weight, tuple):
                return None
            check_weight(*weight)
            parts += [np.ascontiguousarray(part) for part in weight]
        inner, half = parts[0].shape
        check_shape("w3", parts[4], inner, half)
        check_shape("w2", parts[2], half * 2, inner // 2)
        return Packed(inner, half * 2, np.array([pointer(part) for part in parts], np.uintp), parts)


def route(
    x: Array, gate: Array, bias: Array | None, k: int, scale: float = 1.0, renormalise: bool = True
) -> tuple[Array, Array]:
    """Chooses k experts for each token, in float32.

    Args:
        x: [T, D], the full hidden state.
        gate: [E, D].
        bias: [E], added for the choice only; None for none.
        k: experts per token, 1..E.
        scale: factor on the weights.
        renormalise: divide the chosen weights by their sum + 1e-20.

    Returns:
        ids i32[T, k] with the strongest choice first (ties to the lowest expert), weights f32[T, k].

    Raises:
        KernelError: arrays that do not fit each other, or an impossible k.
    """
    gate = as_f32("gate", gate, None, None)
    x = as_f32("x", x, None, gate.shape[1])
    if not 1 <= k <= gate.shape[0]:
        raise KernelError(f"{k} experts per token of {gate.shape[0]}: impossible")
    s = sigmoid(dense.matmul(x, gate))
    choice = s if bias is None else s + as_f32("bias", bias, gate.shape[0])
    ids = np.argsort(-choice, axis=1, kind="stable")[:, :k]
    weights = np.take_along_axis(s, ids, axis=1)
    if renormalise:
        weights /= weights.sum(axis=1, keepdims=True) + np.float32(1e-20)
    return ids.astype(np.int32), weights * np.float32(scale)


def multiply(x: Array, w: Weight, *, precision: mxfp4.Precision = "auto") -> Array:
    """x [T, C] times the transpose of any kind of weight -> f32[T, R]."""
    if isinstance(w, tuple):
        return mxfp4.matmul(x, *w, precision=precision)
    plain = "auto" if precision == "int8" else precision
    if isinstance(w, dense.Int8Weight):
        return dense.matmul_int8(x, w, precision=plain)
    return dense.matmul(x, w, precision=plain)


def experts(
    x: Array,
    ids: Array,
    weights: Array,
    get_expert: Callable[[int], Expert],
    activation: Callable[[Array, Array], Array],
    *,
    precision: mxfp4.Precision = "auto",
) -> Array:
    """The weighted sum of the chosen experts of every token; float32 throughout, each expert asked for once.

    Args:
        x: floating point [T, C].
        ids: integers [T, k]; a negative id is no expert.
        weights: [T, k].
        get_expert: the matrices of one expert, called once for each id in use, in rising order; what it
            gave must stay valid until the end of the call (all experts of the layer run in one native call).
        activation: an `Activation`, or any function of (gate, up).
        precision: as in `mxfp4.matmul`.

    Returns:
        f32[T, C].

    Raises:
        KernelError: arrays that do not fit each other.
    """
    x = as_f32("x", x, None, None)
    check_shape("ids", ids, x.shape[0], None)
    if ids.dtype.kind not in "iu":
        raise KernelError(f"ids has dtype {ids.dtype}; integers are needed")
    weights = as_f32("weights", weights, *ids.shape)
    in_use = np.unique(ids)
    in_use = in_use[in_use >= 0]
    loaded = library()
    if loaded is not None and isinstance(activation, Activation) and x.size and in_use.size:
        chosen = [get_expert(int(expert)) for expert in in_use]
        packed = [expert.packed for expert in chosen]
        matrices = [own for own in packed if own is not None]
        for own in matrices:
            if own.columns != x.shape[1]:
                raise KernelError(
                    f"experts of {own.columns} columns do not fit tokens of shape {list(x.shape)}"
                )
        if len(matrices) == len(packed) and len({own.inner for own in matrices}) == 1:
            places = np.where(ids < 0, -1, np.searchsorted(in_use, ids))
            addresses = np.stack([own.addresses for own in matrices])
            kind = activation.numbers()
            return native.experts(loaded, x, places, weights, addresses, matrices[0].inner, kind, precision)
        get_expert = dict(zip(in_use.tolist(), chosen, strict=True)).__getitem__
    y = np.zeros_like(x)
    for expert in in_use:
        tokens, places = np.nonzero(ids == expert)
        own = get_expert(int(expert))
        rows = x[tokens]
        gate = multiply(rows, own.w1, precision=precision)
        up = multiply(rows, own.w3, precision=precision)
        part = multiply(activation(gate, up), own.w2, precision=precision)
        check_shape(f"the result of expert {expert}", part, rows.shape[0], x.shape[1])
        np.add.at(y, tokens, part * weights[tokens, places][:, None])
    return y

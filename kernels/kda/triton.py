"""Kimi delta attention for GPUs, in Triton: the recurrence (one token or many) and chunks for prefill.

Arguments are what Triton takes: contiguous float32 tensors of any library that have `data_ptr()` and `dtype`,
on the device. `state` [H, K, V] is changed in place; `out` [T, H, V] is given by the caller. K and V are
powers of two of at least 16.
"""

# Triton's language is no typed Python, and the package is an extra.
# pyright: basic, reportMissingImports=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

# Fused multiply-adds are asked for, not left to a default.
_OPTIONS: dict[str, Any] = {"num_warps": 4, "enable_fp_fusion": True}


@triton.jit
def recurrent_kernel(
    state, q, k, v, g, beta, out, tokens, heads,
    keys: tl.constexpr, values: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """`block` value columns of one head, whose state stays in registers over all tokens."""
    head = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, keys), tl.program_id(1) * block + tl.arange(0, block)
    own = state + head * keys * values + row[:, None] * values + column[None, :]
    s = tl.load(own)
    for t in range(tokens):
        at = t * heads + head
        key, query = tl.load(k + at * keys + row), tl.load(q + at * keys + row)
        s = s * tl.exp(tl.load(g + at * keys + row))[:, None]
        value = tl.load(v + at * values + column) - tl.sum(s * key[:, None], axis=0)
        u = tl.load(beta + at) * value
        s = s + key[:, None] * u[None, :]
        tl.store(out + at * values + column, tl.sum(s * query[:, None], axis=0))
    tl.store(own, s)


@triton.jit
def chunked_kernel(
    state, q, k, v, g, beta, out, tokens, heads,
    keys: tl.constexpr, values: tl.constexpr, block: tl.constexpr, chunk: tl.constexpr, part: tl.constexpr,
    precision: tl.constexpr,
):  # fmt: skip
    """The same, `chunk` tokens at a time. Decays inside a chunk are differences of their running sums, never
    above one, taken `part` key channels at a time: safe for any g <= 0."""
    head = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, keys), tl.program_id(1) * block + tl.arange(0, block)
    step, slot = tl.arange(0, chunk), tl.arange(0, part)
    own = state + head * keys * values + row[:, None] * values + column[None, :]
    s = tl.load(own)
    for start in range(0, tokens, chunk):
        seen = start + step < tokens
        at = ((start + step) * heads + head).to(tl.int64)
        # Dot products of the tokens with each other: a = k k', p = q k', decayed.
        a = tl.zeros([chunk, chunk], tl.float32)
        p = tl.zeros([chunk, chunk], tl.float32)
        for first in range(0, keys, part):
            place = at[:, None] * keys + first + slot[None, :]
            # A float32 running sum of large gates would lose the digits that the difference needs.
            gate = tl.cumsum(tl.load(g + place, mask=seen[:, None], other=0.0).to(tl.float64), axis=0)
            key = tl.load(k + place, mask=seen[:, None], other=0.0)
            query = tl.load(q + place, mask=seen[:, None], other=0.0)
            decay = tl.minimum(gate[:, None, :] - gate[None, :, :], 0.0).to(tl.float32)
            decay = tl.exp(decay) * key[None, :, :]
            a += tl.sum(decay * key[:, None, :], axis=2)
            p += tl.sum(decay * query[:, None, :], axis=2)
        rate = tl.load(beta + at, mask=seen, other=0.0)
        a = tl.where(step[:, None] > step[None, :], a * rate[:, None], 0.0)
        p = tl.where(step[:, None] >= step[None, :], p, 0.0)
        place = at[:, None] * keys + row[None, :]
        gates = tl.load(g + place, mask=seen[:, None], other=0.0).to(tl.float64)
        gate = tl.cumsum(gates, axis=0)
        whole = tl.sum(gates, axis=0)
        key = tl.load(k + place, mask=seen[:, None], other=0.0)
        query = tl.load(q + place, mask=seen[:, None], other=0.0)
        kept = tl.exp(gate.to(tl.float32))
        spot = at[:, None] * values + column[None, :]
        value = tl.load(v + spot, mask=seen[:, None], other=0.0)
        u = rate[:, None] * (value - tl.dot(key * kept, s, input_precision=precision))
        for r in range(1, chunk):  # unit lower triangular: one row after the other
            line = tl.sum(tl.where(step[:, None] == r, a, 0.0), axis=0)
            u -= tl.where(step[:, None] == r, tl.sum(line[:, None] * u, axis=0)[None, :], 0.0)
        result = tl.dot(query * kept, s, input_precision=precision) + tl.dot(p, u, input_precision=precision)
        tl.store(out + spot, result, mask=seen[:, None])
        left = key * tl.exp(tl.minimum(whole[None, :] - gate, 0.0).to(tl.float32))
        s = s * tl.exp(whole.to(tl.float32))[:, None] + tl.dot(tl.trans(left), u, input_precision=precision)
    tl.store(own, s)


def recurrent(
    state: Any, q: Any, k: Any, v: Any, g: Any, beta: Any, out: Any, *, tokens: int, heads: int, keys: int,
    values: int, block: int = 16,
) -> None:  # fmt: skip
    """Token by token; one token is the decode step."""
    run: Any = recurrent_kernel[(heads, values // block)]
    run(
        state, q, k, v, g, beta, out, tokens, heads, keys=keys, values=values, block=block,
        **_OPTIONS,
    )  # fmt: skip


def chunked(
    state: Any, q: Any, k: Any, v: Any, g: Any, beta: Any, out: Any, *, tokens: int, heads: int, keys: int,
    values: int, block: int = 32, chunk: int = 16, part: int = 16,
    precision: str = "tf32x3",
) -> None:  # fmt: skip
    """`chunk` tokens at a time (a power of two of at least 16). `precision` of the products with the state:
    tf32x3 keeps float32's accuracy on tensor cores; ieee is exact, and what the interpreter knows."""
    run: Any = chunked_kernel[(heads, values // block)]
    run(
        state, q, k, v, g, beta, out, tokens, heads, keys=keys, values=values, block=block, chunk=chunk,
        part=part, precision=precision, **_OPTIONS,
    )  # fmt: skip

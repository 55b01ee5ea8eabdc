"""Kimi delta attention in numpy, float32: it serves where the native library was not built."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def decode_step(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array) -> Array:
    """With D = diag(exp g): u = beta (v - k'DS), o = q'DS + (q.k) u, S <- DS + k u'."""
    state *= np.exp(g)[:, :, None]
    u = beta[:, None] * (v - np.matmul(k[:, None, :], state)[:, 0])
    out = np.matmul(q[:, None, :], state)[:, 0] + np.sum(q * k, axis=1, keepdims=True) * u
    state += k[:, :, None] * u[:, None, :]
    return out


def recurrent(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array) -> Array:
    out = np.empty(v.shape, np.float32)
    for t in range(q.shape[0]):
        out[t] = decode_step(state, q[t], k[t], v[t], g[t], beta[t])
    return out


def chunked(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array, chunk_size: int) -> Array:
    """Chunks of `chunk_size` tokens, the heads in turn.

    The decays inside a chunk are exp(G_r - G_i) for i <= r, formed as differences of a float64 running sum:
    never above 1, and safe for any g <= 0.
    """
    out = np.empty(v.shape, np.float32)
    for begin in range(0, q.shape[0], chunk_size):
        part = slice(begin, begin + chunk_size)
        for h in range(q.shape[1]):
            out[part, h] = _chunk(state[h], q[part, h], k[part, h], v[part, h], g[part, h], beta[part, h])
    return out


def _chunk(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array) -> Array:
    """One head: state [K, V] in place; q k g [C, K], v [C, V], beta [C]."""
    count = q.shape[0]
    total = np.cumsum(g.astype(np.float64), axis=0)
    # The upper triangle would overflow and is not used.
    decay = np.exp(np.minimum(total[:, None, :] - total[None, :, :], 0.0)).astype(np.float32)
    kept = np.exp(total).astype(np.float32)
    weighted = decay * k[None, :, :]
    a = np.tril(np.matmul(weighted, k[:, :, None])[:, :, 0], -1) * beta[:, None]
    p = np.tril(np.matmul(weighted, q[:, :, None])[:, :, 0])
    u = beta[:, None] * (v - (k * kept) @ state)
    for r in range(1, count):
        u[r] -= a[r, :r] @ u[:r]
    out = (q * kept) @ state + p @ u
    state *= kept[-1][:, None]
    state += (k * decay[-1]).T @ u
    return out

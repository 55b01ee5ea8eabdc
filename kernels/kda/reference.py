"""Kimi delta attention as a recurrence over tokens in float64: the definition."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def recurrent(state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array) -> tuple[Array, Array]:
    """For each head and token: S <- diag(exp g) S; S <- S + beta k (v - S' k)'; o = S' q.

    state [H, K, V], q k g [T, H, K], v [T, H, V], beta [T, H]. Returns (o [T, H, V], state after), float64;
    `state` is left as it was.
    """
    s = state.astype(np.float64)
    q, k, v, g, beta = (a.astype(np.float64) for a in (q, k, v, g, beta))
    out = np.zeros(v.shape)
    for t in range(q.shape[0]):
        for h in range(q.shape[1]):
            s[h] *= np.exp(g[t, h])[:, None]
            s[h] += beta[t, h] * np.outer(k[t, h], v[t, h] - s[h].T @ k[t, h])
            out[t, h] = s[h].T @ q[t, h]
    return out, s

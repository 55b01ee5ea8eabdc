"""Routing, gated activations and the sum over experts in float64: the definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z))."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z.astype(np.float64)))


def route(x: Array, gate: Array, bias: Array, k: int, scale: float, renormalise: bool) -> tuple[Array, Array]:
    """The k experts with the largest sigmoid(gate x) + bias, and the weights without the bias.

    Ties go to the lowest expert. Weights: s / (sum of the chosen s + 1e-20) * scale.

    Args:
        x: [T, D]. gate: [E, D]. bias: [E].

    Returns:
        ids i32[T, k] in falling order of the choice, weights f64[T, k].
    """
    s = sigmoid(x.astype(np.float64) @ gate.astype(np.float64).T)
    ids = np.argsort(-(s + bias), axis=1, kind="stable")[:, :k]
    weights = np.take_along_axis(s, ids, axis=1)
    if renormalise:
        weights = weights / (weights.sum(axis=1, keepdims=True) + 1e-20)
    return ids.astype(np.int32), weights * scale


def situ_glu(gate: Array, up: Array, beta: float, linear_beta: float | None) -> Array:
    """beta tanh(gate / beta) sigmoid(gate) * (b tanh(up / b)); b is linear_beta, without it it is `up`."""
    gate, up = gate.astype(np.float64), up.astype(np.float64)
    linear = up if linear_beta is None else linear_beta * np.tanh(up / linear_beta)
    return beta * np.tanh(gate / beta) * sigmoid(gate) * linear


def swiglu(gate: Array, up: Array) -> Array:
    """gate sigmoid(gate) * up."""
    return gate.astype(np.float64) * sigmoid(gate) * up.astype(np.float64)


def experts(
    x: Array,
    ids: Array,
    weights: Array,
    get_matrices: Callable[[int], tuple[Array, Array, Array]],
    activation: Callable[[Array, Array], Array],
) -> Array:
    """y[t] = sum over i of weights[t, i] * w2 act(w1 x[t], w3 x[t]) with the matrices of expert ids[t, i].

    `get_matrices(e)` gives w1 [I, C], w2 [C, I], w3 [I, C] as plain arrays.
    """
    y = np.zeros((x.shape[0], x.shape[1]))
    for t in range(x.shape[0]):
        for e, weight in zip(ids[t], weights[t], strict=True):
            w1, w2, w3 = (w.astype(np.float64) for w in get_matrices(int(e)))
            row = x[t].astype(np.float64)
            y[t] += weight * (w2 @ activation(w1 @ row, w3 @ row))
    return y

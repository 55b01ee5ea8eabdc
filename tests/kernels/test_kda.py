"""Kimi delta attention: decode step, recurrence and chunks against the float64 recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from whimbrel.kernels import kda
from whimbrel.kernels.kda import reference

Array = np.ndarray[Any, np.dtype[Any]]


pytestmark = pytest.mark.usefixtures("variant")


def _case(tokens: int, heads: int, keys: int, values: int, gate: str, seed: int = 0) -> tuple[Array, ...]:
    made = np.random.default_rng(seed)
    q, k = (made.standard_normal((tokens, heads, keys)) for _ in range(2))
    q /= np.linalg.norm(q, axis=2, keepdims=True) * np.sqrt(keys)
    k /= np.linalg.norm(k, axis=2, keepdims=True)
    v = made.standard_normal((tokens, heads, values))
    raw = made.standard_normal((tokens, heads, keys))
    g = {
        "usual": -5 / (1 + np.exp(-raw * 3 + 3)),
        "at the bound": np.full(raw.shape, -5.0),
        "unbounded": -np.where(made.random(raw.shape) < 0.1, 125.0, np.abs(raw)),
        "none": np.zeros(raw.shape),
    }[gate]
    beta = 1 / (1 + np.exp(-made.standard_normal((tokens, heads))))
    state = made.standard_normal((heads, keys, values))
    return tuple(a.astype(np.float32) for a in (state, q, k, v, g, beta))


def _close(got: Array, wanted: Array) -> None:
    assert got.dtype == np.float32 and got.shape == wanted.shape
    if not got.size:
        return
    error = np.sqrt(np.mean((got - wanted) ** 2)) / max(float(np.sqrt(np.mean(wanted**2))), 1e-30)
    assert error < 2e-6


GATES = ("usual", "at the bound", "unbounded", "none")


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    ("tokens", "heads", "keys", "values"),
    [(1, 2, 128, 128), (70, 2, 128, 128), (13, 3, 5, 7), (6, 1, 8, 40), (0, 2, 4, 4)],
)
def test_the_recurrence_follows_the_definition(tokens: int, heads: int, keys: int, values: int, gate: str):
    state, *inputs = _case(tokens, heads, keys, values, gate)
    wanted, after = reference.recurrent(state, *inputs)
    _close(kda.recurrent(state, *inputs), wanted)
    _close(state, after)


@pytest.mark.parametrize("gate", GATES)
def test_every_chunk_size_gives_the_recurrence(gate: str):
    start, *inputs = _case(70, 2, 16, 24, gate)
    wanted, after = reference.recurrent(start, *inputs)
    for size in range(1, 71):
        state = start.copy()
        _close(kda.chunked(state, *inputs, chunk_size=size), wanted)
        _close(state, after)


@pytest.mark.parametrize("gate", GATES)
def test_full_size_heads_in_chunks_give_the_recurrence(gate: str):
    state, *inputs = _case(150, 2, 128, 128, gate)
    wanted, after = reference.recurrent(state, *inputs)
    _close(kda.chunked(state, *inputs), wanted)
    _close(state, after)


@pytest.mark.parametrize("gate", GATES)
def test_decode_steps_one_by_one_give_the_recurrence(gate: str):
    state, *inputs = _case(5, 3, 128, 128, gate)
    wanted, after = reference.recurrent(state, *inputs)
    for t in range(5):
        _close(kda.decode_step(state, *(array[t] for array in inputs)), wanted[t])
    _close(state, after)


def test_a_prompt_may_be_cut_anywhere():
    start, *inputs = _case(40, 2, 16, 16, "usual")
    whole = start.copy()
    wanted = kda.chunked(whole, *inputs)
    for cut in (1, 7, 16, 33):
        state = start.copy()
        first = kda.chunked(state, *(array[:cut] for array in inputs))
        second = kda.chunked(state, *(array[cut:] for array in inputs))
        _close(np.concatenate((first, second)), wanted)
        _close(state, whole)


def test_wrong_arguments_are_refused_by_name():
    state, q, k, v, g, beta = _case(3, 2, 4, 4, "usual")
    with pytest.raises(ValueError, match=r"v: expected shape \(3, 2, 4\), got \(3, 2, 5\)"):
        kda.recurrent(state, q, k, np.zeros((3, 2, 5), np.float32), g, beta)
    with pytest.raises(ValueError, match="state: expected contiguous float32"):
        kda.recurrent(state.astype(np.float64), q, k, v, g, beta)
    with pytest.raises(ValueError, match="state: expected contiguous float32"):
        kda.recurrent(state.transpose(0, 2, 1), q, k, v, g, beta)
    with pytest.raises(ValueError, match="chunk_size is 0"):
        kda.chunked(state, q, k, v, g, beta, chunk_size=0)
    state.flags.writeable = False
    with pytest.raises(ValueError, match="must be writeable"):
        kda.decode_step(state, q[0], k[0], v[0], g[0], beta[0])

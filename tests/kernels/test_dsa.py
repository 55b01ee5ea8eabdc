"""Sparse latent attention: every path this machine has against the float64 definition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from whimbrel.kernels import dsa
from whimbrel.kernels.arrays import Array
from whimbrel.kernels.dsa import reference
from whimbrel.kernels.native import library

pytestmark = pytest.mark.usefixtures("variant")


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _error(got: Array, wanted: Array) -> float:
    """Root mean square of the difference over that of the wanted values."""
    if not wanted.size:
        return 0.0
    return float(np.sqrt(np.mean((got - wanted) ** 2) / max(np.mean(wanted**2), 1e-30)))


def _pool(flat: Array, page_size: int, seed: int = 3) -> tuple[Array, Array]:
    """The rows in pages of a larger pool, in a random order; what is not used is NaN."""
    count = -(-flat.shape[0] // page_size)
    table = np.random.default_rng(seed).permutation(count + 3)[:count].astype(np.int32)
    pool = np.full((count + 3, page_size, flat.shape[1]), np.nan, flat.dtype)
    for row, values in enumerate(flat):
        pool[table[row // page_size], row % page_size] = values
    return pool, table


@pytest.mark.parametrize("storage", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("tokens", "heads", "width", "count", "first"),
    [(1, 32, 128, 1000, 999), (5, 32, 128, 777, 772), (3, 2, 6, 17, 9), (1, 3, 33, 5, 2), (2, 4, 8, 0, 0)],
)
def test_indexer_scores_follow_the_definition(
    tokens: int, heads: int, width: int, count: int, first: int, storage: Any
):
    q, w = _random(tokens, heads, width), _random(tokens, heads, seed=1)
    keys = _random(count, width, seed=2).astype(storage)
    wanted = reference.indexer_scores(q, keys, w, first)
    # Beside bfloat16 keys the query may be rounded to bfloat16 too; nothing else may be lost.
    rounded = reference.indexer_scores(q.astype(storage).astype(np.float32), keys, w, first)
    seen = np.isfinite(wanted)
    pool, table = _pool(keys, 64)
    for got in (
        dsa.indexer_scores(q, keys, w, first),
        dsa.indexer_scores(q, pool, w, first, table=table, length=count),
    ):
        assert got.dtype == np.float32 and np.array_equal(np.isfinite(got), seen)
        assert min(_error(got[seen], wanted[seen]), _error(got[seen], rounded[seen])) < 1e-6


def test_a_key_scores_the_same_in_prefill_and_in_decode():
    q, w, keys = _random(9, 32, 128), _random(9, 32, seed=1), _random(300, 128, seed=2)
    together = dsa.indexer_scores(q, keys, w, 280)
    for t in range(9):
        alone = dsa.indexer_scores(q[t : t + 1], keys, w[t : t + 1], 280 + t)
        np.testing.assert_array_equal(together[t], alone[0])


def _scores(kind: str, count: int) -> Array:
    made = np.random.default_rng(7)
    if kind == "normal":
        return made.standard_normal(count, np.float32)
    if kind == "all equal":
        return np.full(count, -1.5, np.float32)
    if kind == "clustered":  # a few values next to each other
        return (1 + made.integers(0, 5, count) * np.float32(2**-23)).astype(np.float32)
    if kind == "relu zeros":
        return np.maximum(made.standard_normal(count, np.float32) - 2, 0) * np.where(
            np.arange(count) % 3, 1, -1
        )
    if kind == "one peak at the end":
        return np.where(np.arange(count) == count - 1, np.float32(3e38), np.float32(-3e38))
    if kind == "ascending":
        return np.arange(count, dtype=np.float32)
    values = made.standard_normal(count, np.float32)  # few finite
    values[made.random(count) < 0.99] = -np.inf
    values[::7] = np.nan
    return values


KINDS = ("normal", "all equal", "clustered", "relu zeros", "one peak at the end", "ascending", "few finite")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("count", "k"), [(0, 4), (1, 4), (257, 16), (5000, 2048), (2048, 2048), (150_001, 2048), (40, 0)]
)
def test_the_selection_is_exact_and_ties_go_to_the_lowest_position(kind: str, count: int, k: int):
    scores = _scores(kind, count).astype(np.float32)
    eligible = np.flatnonzero(scores > -np.inf)
    order = eligible[np.argsort(-scores[eligible], kind="stable")][:k]
    got = dsa.top_k(np.stack((scores, scores)), k)
    assert got.dtype == np.int64 and got.shape == (2, k)
    for row in got:
        np.testing.assert_array_equal(row[: order.size], order)
        assert (row[order.size :] == -1).all()
    if count < 1000:
        np.testing.assert_array_equal(got[:1], reference.top_k(scores[None], k))


def _attention_case(
    tokens: int, heads: int, latent: int, pe: int, count: int, storage: Any
) -> tuple[Array, Array, Array, Array]:
    return (
        _random(tokens, heads, latent),
        _random(tokens, heads, pe, seed=1),
        _random(count, latent, seed=2).astype(storage),
        _random(count, pe, seed=3).astype(storage),
    )


@pytest.mark.parametrize("storage", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("tokens", "heads", "latent", "pe", "count", "k"),
    [
        (1, 96, 512, 64, 700, 300),
        (3, 4, 16, 8, 50, 20),
        (2, 5, 19, 3, 9, 7),
        (1, 1, 1, 1, 1, 1),
        (2, 4, 16, 8, 30, 0),
    ],
)
def test_sparse_attention_follows_the_definition(
    tokens: int, heads: int, latent: int, pe: int, count: int, k: int, storage: Any
):
    q_latent, q_pe, latents, shared = _attention_case(tokens, heads, latent, pe, count, storage)
    made = np.random.default_rng(5)
    indices = (
        np.stack([made.permutation(count)[:k] for _ in range(tokens)]).astype(np.int64).reshape(tokens, k)
    )
    indices[:, k // 2 : k // 2 + 2] = -1
    indices[-1, : k - 1] = -1
    scale = 3 / np.sqrt(latent + pe)
    wanted = reference.sparse_attention(q_latent, q_pe, latents, shared, indices, scale)
    both, table = _pool(np.concatenate((latents, shared), axis=1), 16)
    for got in (
        dsa.sparse_attention(q_latent, q_pe, latents, shared, indices, scale),
        dsa.sparse_attention(
            q_latent, q_pe, both[..., :latent], both[..., latent:], indices, scale, table=table, length=count
        ),
    ):
        assert got.dtype == np.float32
        assert _error(got, wanted) < (4e-6 if storage == np.float32 else 8e-3)
        assert not got[-1].any() or k > 0


@pytest.mark.parametrize("storage", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("tokens", "heads", "latent", "pe", "count", "first"),
    [
        (1, 96, 512, 64, 513, 512),
        (7, 4, 16, 8, 67, 60),
        (5, 3, 17, 5, 5, 0),
        (3, 4, 16, 8, 1300, 1200),
        (1, 2, 4, 4, 0, 0),
    ],
)
def test_dense_attention_follows_the_definition(
    tokens: int, heads: int, latent: int, pe: int, count: int, first: int, storage: Any
):
    q_latent, q_pe, latents, shared = _attention_case(tokens, heads, latent, pe, count, storage)
    scale = 3 / np.sqrt(latent + pe)
    wanted = reference.dense_attention(q_latent, q_pe, latents, shared, first, scale)
    both, table = _pool(np.concatenate((latents, shared), axis=1), 16)
    for got in (
        dsa.dense_attention(q_latent, q_pe, latents, shared, first, scale),
        dsa.dense_attention(
            q_latent, q_pe, both[..., :latent], both[..., latent:], first, scale, table=table, length=count
        ),
    ):
        assert _error(got, wanted) < (4e-6 if storage == np.float32 else 8e-3)


def test_scores_of_any_size_neither_overflow_nor_lose_the_winner():
    q_latent, q_pe, latents, shared = _attention_case(1, 4, 16, 8, 90, np.float32)
    wanted = reference.dense_attention(q_latent * 1e4, q_pe, latents, shared, 89, 1.0)
    got = dsa.dense_attention(q_latent * np.float32(1e4), q_pe, latents, shared, 89, 1.0)
    assert _error(got, wanted) < 1e-5


def test_bits_in_uint16_are_bfloat16_rows():
    q, w, keys = _random(2, 4, 16), _random(2, 4, seed=1), _random(20, 16, seed=2).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(
        dsa.indexer_scores(q, keys, w, 18), dsa.indexer_scores(q, keys.view(np.uint16), w, 18)
    )


def test_the_number_of_threads_changes_no_bit(variant: str):
    if variant == "numpy":
        pytest.skip("its threads are not ours")
    q_latent, q_pe, latents, shared = _attention_case(3, 20, 48, 16, 900, ml_dtypes.bfloat16)
    q, w, keys = _random(3, 4, 48), _random(3, 4, seed=1), latents
    indices = np.argsort(_random(3, 900, seed=9), axis=1)[:, :700]
    found: list[list[bytes]] = []
    for threads in (1, 3):
        with library.using(variant, threads):
            results = (
                dsa.indexer_scores(q, keys, w, 890),
                dsa.sparse_attention(q_latent, q_pe, latents, shared, indices, 0.2),
                dsa.dense_attention(q_latent, q_pe, latents, shared, 890, 0.2),
            )
            found.append([array.tobytes() for array in results])
    assert found[0] == found[1]


def test_eight_bit_keys_score_as_their_values_do():
    q, w = _random(2, 32, 128), _random(2, 32, seed=1)
    packed = dsa.pack_keys(_random(333, 128, seed=2) * 7)
    assert packed.shape == (333, 132)
    held = dsa.unpack_keys(packed)
    assert _error(held, _random(333, 128, seed=2) * 7) < 0.03
    rounded = q.astype(ml_dtypes.bfloat16).astype(np.float32)
    wanted = [reference.indexer_scores(each, held, w, 340) for each in (q, rounded)]
    pool, table = _pages(packed)
    for got in (
        dsa.indexer_scores(q, packed, w, 340),
        dsa.indexer_scores(q, pool, w, 340, table=table, length=333),
    ):
        assert min(_error(got, each) for each in wanted) < 1e-6


def test_eight_bit_latents_are_attended_as_their_values_are():
    q_latent, q_pe, latents, shared = _attention_case(3, 96, 512, 64, 150, np.float32)
    packed = dsa.pack_latents(latents * 0.01, shared)
    assert packed.shape == (150, 656)
    held = dsa.unpack_latents(packed)
    assert _error(held[0], latents * 0.01) < 0.03 and _error(held[1], shared) < 2e-3
    indices = np.argsort(_random(3, 150, seed=9), axis=1)[:, :70]
    sparse = reference.sparse_attention(q_latent, q_pe, *held, indices, 0.1)
    dense = reference.dense_attention(q_latent, q_pe, *held, 147, 0.1)
    pool, table = _pages(packed)
    assert _error(dsa.sparse_attention(q_latent, q_pe, packed, None, indices, 0.1), sparse) < 8e-3
    got = dsa.sparse_attention(q_latent, q_pe, pool, None, indices, 0.1, table=table, length=150)
    assert _error(got, sparse) < 8e-3
    assert _error(dsa.dense_attention(q_latent, q_pe, packed, None, 147, 0.1), dense) < 8e-3
    with pytest.raises(ValueError, match="hold their own pe"):
        dsa.dense_attention(q_latent, q_pe, packed, shared, 147, 0.1)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-3, 447.9, 448.0, 449.0, 3e30])
def test_rows_of_any_size_fit_into_eight_bits(size: float):
    values = np.linspace(-1, 1, 128, dtype=np.float32)[None] * np.float32(size)
    held = dsa.unpack_keys(dsa.pack_keys(values))
    assert np.isfinite(held).all()
    np.testing.assert_allclose(held, values, rtol=0.0626, atol=size * 2**-15 + 1e-33)
    with pytest.raises(ValueError, match="NaN or infinity"):
        dsa.pack_keys(np.full((1, 128), np.nan, np.float32))


def _pages(packed: Array) -> tuple[Array, Array]:
    pool = np.zeros((9, 64, packed.shape[1]), np.uint8)
    table = np.array([7, 1, 4, 0, 8, 2], np.int32)[: -(-len(packed) // 64)]
    for row, values in enumerate(packed):
        pool[table[row // 64], row % 64] = values
    return pool, table


def _zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: dsa.indexer_scores(_zeros(1, 2, 4), _zeros(5, 3), _zeros(1, 2), 0), "shapes do not fit"),
        (lambda: dsa.indexer_scores(_zeros(1, 2, 4), _zeros(5, 4), _zeros(2, 2), 0), "shapes do not fit"),
        (lambda: dsa.indexer_scores(_zeros(1, 2, 4), _zeros(5, 4, dtype=np.int8), _zeros(1, 2), 0), "int8"),
        (lambda: dsa.indexer_scores(_zeros(1, 2, 4), _zeros(5, 4), _zeros(1, 2), -1), "positions begin at 0"),
        (
            lambda: dsa.indexer_scores(
                _zeros(1, 2, 4), _zeros(2, 8, 4), _zeros(1, 2), 0, table=np.array([0, 2], np.int32)
            ),
            "outside 0..1",
        ),
        (
            lambda: dsa.indexer_scores(
                _zeros(1, 2, 4), _zeros(2, 8, 4), _zeros(1, 2), 0, table=np.array([0], np.int32), length=9
            ),
            "9 rows were asked for, 8 are there",
        ),
        (lambda: dsa.indexer_scores(_zeros(1, 2, 4), _zeros(4, 5).T, _zeros(1, 2), 0), "side by side"),
        (lambda: dsa.top_k(_zeros(1, 4), -1), "cannot be negative"),
        (lambda: dsa.top_k(_zeros(4), 1), r"any, any"),
        (
            lambda: dsa.sparse_attention(
                _zeros(1, 2, 4), _zeros(1, 2, 2), _zeros(3, 4), _zeros(3, 2), np.array([[3]]), 1.0
            ),
            "row 3 was asked for, 3 are there",
        ),
        (
            lambda: dsa.dense_attention(_zeros(1, 2, 4), _zeros(1, 2, 2), _zeros(3, 4), _zeros(4, 2), 0, 1.0),
            "shapes do not fit",
        ),
    ],
)
def test_wrong_arguments_are_refused_by_name(call: Any, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        call()

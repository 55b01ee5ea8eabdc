"""MXFP4 products and grouped experts in every variant against the float64 definition."""

from __future__ import annotations

import numpy as np
import pytest
from whimbrel.kernels import moe, mxfp4
from whimbrel.kernels.arrays import KernelError
from whimbrel.kernels.moe import reference as moe_reference
from whimbrel.kernels.mxfp4 import reference
from whimbrel.kernels.native import library

LIMITS = {"int8": 5.5e-3, "auto": 5.5e-3, "bf16": 1.7e-3, "f32": 1e-6}


def _error(value: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(((value - exact) ** 2).mean() / (exact**2).mean()))


def _case(seed: int, tokens: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, columns)).astype(np.float32)
    x *= np.exp(rng.standard_normal((tokens, 1))).astype(np.float32)
    return x, *mxfp4.quantise(rng.standard_normal((rows, columns)).astype(np.float32) / 50)


@pytest.mark.parametrize("precision", ["auto", "int8", "bf16", "f32"])
def test_products_of_every_shape_stay_within_the_error(variant: str, precision: mxfp4.Precision):
    rng = np.random.default_rng(7)
    tokens = [1, 2, 3, 5, 7, 9, 13, 16, 31, 33, 40, 70]
    for seed, count in enumerate(tokens):
        rows, columns = int(rng.integers(1, 80)), 32 * int(rng.integers(1, 45))
        x, packed, scales = _case(seed, count, rows, columns)
        exact = reference.matmul(x, packed, scales)
        value = mxfp4.matmul(x, packed, scales, precision=precision)
        assert value.shape == exact.shape and value.dtype == np.float32
        # The limits are means over many values: these few scatter about them.
        limit = LIMITS[precision] * (1.3 if rows * count * columns > 30000 else 2.5)
        assert _error(value, exact) < limit, (count, rows, columns)


@pytest.mark.parametrize("tokens", [1, 4, 16, 64])
def test_the_error_at_the_size_of_an_expert_is_not_above_the_limit(variant: str, tokens: int):
    x, packed, scales = _case(3, 64, 48, 3584)
    x /= np.abs(x).max(axis=1, keepdims=True)  # no token outweighs the others
    exact = reference.matmul(x, packed, scales)
    for precision, limit in (("int8", 5.5e-3), ("bf16", 1.7e-3), ("f32", 1e-6)):
        parts = np.split(x, 64 // tokens)
        value = np.concatenate([mxfp4.matmul(part, packed, scales, precision=precision) for part in parts])  # type: ignore[arg-type]
        assert _error(value, exact) <= limit


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_that_do_not_divide_the_rows_change_nothing(built: None, threads: int):
    x, packed, scales = _case(4, 5, 211, 544)
    for name in library.usable()[:-1]:
        with library.using(name, 1):
            alone = [mxfp4.matmul(x[:t], packed, scales) for t in (1, 5)]
        with library.using(name, threads):
            together = [mxfp4.matmul(x[:t], packed, scales) for t in (1, 5)]
        assert all((a == b).all() for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("precision", ["int8", "bf16", "f32"])
def test_the_ends_of_the_scale_are_taken_as_they_are(variant: str, precision: mxfp4.Precision):
    for tokens in (1, 2, 5, 20):
        x, packed, scales = _case(5, tokens, 37, 544)
        scales[:] = 0
        scales[5:9] = 250
        scales[20:] = 120
        x *= np.float32(1e-3)
        with np.errstate(over="ignore"):
            exact = reference.matmul(x, packed, scales)
            value = mxfp4.matmul(x, packed, scales, precision=precision).astype(np.float64)
        for band in (slice(0, 5), slice(5, 9), slice(20, None)):
            scale = np.abs(exact[:, band]).max()
            assert np.abs(value[:, band] - exact[:, band]).max() <= 0.02 * scale + 1e-44
        scales[11, 3] = 255
        value = mxfp4.matmul(x, packed, scales, precision=precision)
        assert np.isnan(value[:, 11]).all() and not np.isnan(np.delete(value, 11, axis=1)).any()


@pytest.mark.parametrize("precision", ["auto", "int8", "bf16", "f32"])
def test_a_token_that_is_not_finite_spoils_itself_alone(variant: str, precision: mxfp4.Precision):
    for wrong in (np.nan, np.inf):
        x, packed, scales = _case(6, 6, 33, 96)
        x[2, 40] = wrong
        value = mxfp4.matmul(x, packed, scales, precision=precision)
        code = (packed[:, 20] & 7) > 0  # zero times infinity may be anything
        assert not np.isfinite(value[2, code]).any()
        assert np.isfinite(np.delete(value, 2, axis=0)).all()


def test_no_tokens_and_arrays_that_are_views_are_taken_too(variant: str):
    x, packed, scales = _case(8, 6, 40, 128)
    assert mxfp4.matmul(x[:0], packed, scales).shape == (0, 40)
    value = mxfp4.matmul(x[::2], packed[::2], scales[::2], precision="f32")
    np.testing.assert_allclose(
        value, reference.matmul(x[::2], packed[::2], scales[::2]), rtol=1e-4, atol=1e-5
    )


def _experts(seed: int, count: int, columns: int, inner: int) -> list[moe.Expert]:
    rng = np.random.default_rng(seed)

    def matrix(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        return mxfp4.quantise((rng.standard_normal((rows, width)) / np.sqrt(width)).astype(np.float32))

    return [
        moe.Expert(matrix(inner, columns), matrix(columns, inner), matrix(inner, columns))
        for _ in range(count)
    ]


@pytest.mark.parametrize("activation", [moe.situ(4.0, 25.0), moe.situ(4.0), moe.SWIGLU])
def test_a_layer_of_experts_is_the_weighted_sum_of_the_chosen(variant: str, activation: moe.Activation):
    experts = _experts(9, 6, 96, 160)
    rng = np.random.default_rng(10)

    def plain(e: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        w = experts[e]
        return tuple(reference.dequantise(*m) for m in (w.w1, w.w2, w.w3))  # type: ignore[misc]

    def act(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
        if activation.kind == "swiglu":
            return moe_reference.swiglu(gate, up)
        return moe_reference.situ_glu(gate, up, activation.beta, activation.linear_beta)

    for tokens in (1, 3, 50):
        x = rng.standard_normal((tokens, 96)).astype(np.float32) * 3
        ids = np.argsort(rng.random((tokens, 6)), axis=1)[:, :3].astype(np.int32)
        ids[ids == 4] = 2  # one expert unused, one chosen twice by some
        weights = rng.random((tokens, 3)).astype(np.float32)
        exact = moe_reference.experts(x, ids, weights, plain, act)
        for precision, limit in (("auto", 1.5e-2), ("f32", 2e-6)):
            value = moe.experts(x, ids, weights, experts.__getitem__, activation, precision=precision)  # type: ignore[arg-type]
            assert _error(value, exact) < limit
        none = moe.experts(x, np.full_like(ids, -1), weights, experts.__getitem__, activation)
        assert (none == 0).all()


def test_experts_of_any_kind_of_weight_give_the_same(variant: str):
    (packed,) = _experts(11, 1, 64, 96)
    dense = moe.Expert(*(mxfp4.dequantise(*w) for w in (packed.w1, packed.w2, packed.w3)))  # type: ignore[misc]
    x = np.random.default_rng(12).standard_normal((3, 64)).astype(np.float32)
    ids, weights = np.zeros((3, 1), np.int64), np.full((3, 1), 0.5, np.float32)
    one = moe.experts(x, ids, weights, lambda _: packed, moe.SWIGLU, precision="f32")
    other = moe.experts(x, ids, weights, lambda _: dense, lambda g, u: moe.swiglu(g, u), precision="f32")
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_experts_that_do_not_fit_the_tokens_are_named(variant: str):
    (expert,) = _experts(13, 1, 64, 96)
    with pytest.raises(KernelError, match="shape"):
        moe.experts(
            np.ones((1, 96), np.float32), np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32),
            lambda _: expert, moe.SWIGLU,
        )  # fmt: skip

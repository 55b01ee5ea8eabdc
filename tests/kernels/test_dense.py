"""Dense products and the short convolution in every variant against the float64 definition."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from whimbrel.kernels import dense
from whimbrel.kernels.dense import reference


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _error(value: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(((value - exact) ** 2).mean() / (exact**2).mean()))


@pytest.mark.parametrize("precision", ["auto", "bf16", "f32"])
def test_products_with_bf16_weights_of_any_shape(variant: str, precision: dense.Precision):
    rng = np.random.default_rng(1)
    for seed, tokens in enumerate([1, 2, 3, 4, 5, 6, 7, 11, 40, 6, 33]):
        rows, columns = int(rng.integers(1, 90)), int(rng.integers(1, 700))
        columns = columns if seed < 9 else columns // 32 * 32 + 32
        w = _normal(seed, rows, columns).astype(ml_dtypes.bfloat16)
        x = _normal(seed + 50, tokens, columns)
        exact = reference.matmul(x, w)
        value = dense.matmul(x, w, precision=precision)
        assert value.shape == exact.shape
        limit = 1e-6 if precision == "f32" else 3e-3
        assert _error(value, exact) < limit, (tokens, rows, columns)
        assert (dense.matmul(x, w.view(np.uint16), precision=precision) == value).all()


@pytest.mark.parametrize("precision", ["auto", "f32"])
def test_products_with_eight_bit_weights_of_any_shape(variant: str, precision: dense.Precision):
    rng = np.random.default_rng(2)
    for seed, tokens in enumerate([1, 2, 3, 4, 5, 9, 33, 50]):
        rows, columns = int(rng.integers(1, 90)), int(rng.integers(1, 700))
        columns = columns if seed < 7 else 224
        plain = _normal(seed, rows, columns)
        w = dense.quantise_int8(plain)
        x = _normal(seed + 50, tokens, columns)
        exact = reference.matmul(x, reference.dequantise_int8(w.codes, w.scales))
        value = dense.matmul_int8(x, w, precision=precision)
        assert _error(value, exact) < (1e-6 if precision == "f32" else 4e-3), (tokens, rows, columns)
        assert _error(value, reference.matmul(x, plain)) < 1.5e-2


def test_float32_weights_are_never_rounded(variant: str):
    for tokens, rows, columns in ((1, 7, 100), (2, 33, 64), (5, 40, 3), (6, 65, 1700), (29, 70, 2500)):
        x, w = _normal(3, tokens, columns), _normal(4, rows, columns)
        assert _error(dense.matmul(x, w), reference.matmul(x, w)) < 1e-6
        assert _error(dense.matmul(x, np.asfortranarray(w)), reference.matmul(x, w)) < 1e-6


def test_a_weight_that_is_not_a_number_spoils_its_own_row(variant: str):
    for tokens in (1, 7):
        w = _normal(5, 20, 70)
        w[3, 65] = np.nan
        value = dense.matmul(_normal(6, tokens, 70), w.astype(ml_dtypes.bfloat16))
        assert np.isnan(value[:, 3]).all() and not np.isnan(np.delete(value, 3, axis=1)).any()


def test_the_convolution_token_by_token_equals_the_whole(variant: str):
    for channels in (1, 50, 2500):
        x, weight, history = _normal(7, 9, channels), _normal(8, channels, 4), _normal(9, 3, channels)
        exact, exact_history = reference.short_conv(x, weight, history)
        whole, last = dense.short_conv(x, weight, history)
        np.testing.assert_allclose(whole, exact, rtol=2e-5, atol=1e-6)
        assert (last == exact_history.astype(np.float32)).all()
        steps = []
        for t in range(9):
            y, history = dense.short_conv(x[t : t + 1], weight, history)
            steps.append(y)
        np.testing.assert_allclose(np.concatenate(steps), whole, rtol=1e-6, atol=1e-7)
        assert (history == last).all()
    y, same = dense.short_conv(x[:0], weight, history)
    assert y.shape == (0, 2500) and (same == history).all()

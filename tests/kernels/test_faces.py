"""The public faces of mxfp4, dense and moe against their float64 references."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from whimbrel.kernels import dense, moe, mxfp4
from whimbrel.kernels.arrays import KernelError
from whimbrel.kernels.dense import reference as dense_reference
from whimbrel.kernels.moe import reference as moe_reference
from whimbrel.kernels.mxfp4 import reference as mxfp4_reference


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def error(value: np.ndarray, exact: np.ndarray) -> float:
    """Relative RMS error."""
    return float(np.sqrt(((value - exact) ** 2).mean() / (exact**2).mean()))


def test_quantising_agrees_with_the_definition_on_plain_and_on_extreme_blocks():
    w = _normal(1, 6, 96)
    w[1] *= 1e-38
    w[2] *= 3e37
    w[3, :32] = 0
    w[3, 32:64] = 1e-45
    w[4, :32] = np.tile([2.5, -5.0, 0.25, 6.0, -0.2, 1.75, 3.5, 0.75], 4)
    packed, scales = mxfp4.quantise(w)
    wanted_packed, wanted_scales = mxfp4_reference.quantise(w)
    assert (scales == wanted_scales).all() and (packed == wanted_packed).all()
    assert error(mxfp4.dequantise(packed[:1], scales[:1]), w[:1]) < 0.13


def test_what_is_already_mxfp4_survives_quantising_unchanged():
    rng = np.random.default_rng(2)
    packed = rng.integers(0, 256, (40, 64), np.uint8)
    scales = rng.integers(1, 250, (40, 4), np.uint8)
    w = mxfp4.dequantise(packed, scales)
    assert (mxfp4.dequantise(*mxfp4.quantise(w)) == w).all()


def test_the_low_nibble_is_the_even_column_and_255_is_not_a_number():
    packed = np.zeros((1, 32), np.uint8)
    packed[0, 0], packed[0, 1] = 0x72, 0x0F
    w = mxfp4.dequantise(packed, np.array([[128, 255]], np.uint8))
    assert w[0, :4].tolist() == [2.0, 12.0, -12.0, 0.0]
    assert np.isnan(w[0, 32:]).all() and not np.isnan(w[0, :32]).any()
    assert mxfp4.dequantise(np.full((1, 16), 0x22, np.uint8), np.zeros((1, 1), np.uint8))[0, 0] == 2.0**-127


def test_eight_bits_agree_with_the_definition_with_a_short_last_group():
    w = _normal(3, 5, 150)
    w[2, :64] = 0
    made = dense.quantise_int8(w)
    codes, scales = dense_reference.quantise_int8(w)
    assert (made.codes == codes).all() and (made.scales == scales).all()
    assert (dense.quantise_int8(w.astype(ml_dtypes.bfloat16)).shape, made.nbytes) == ((5, 150), 750 + 60)


def test_routing_chooses_with_the_bias_weighs_without_it_and_ties_go_to_the_lowest():
    x, gate, bias = _normal(4, 30, 48), _normal(5, 20, 48) / 7, _normal(6, 20)
    gate[7] = gate[3]
    bias[7] = bias[3] = 3
    for renormalise in (True, False):
        ids, weights = moe.route(x, gate, bias, 6, 2.5, renormalise)
        wanted_ids, wanted = moe_reference.route(x, gate, bias, 6, 2.5, renormalise)
        assert (ids == wanted_ids).all() and ids.dtype == np.int32
        assert (ids[:, :2] == [3, 7]).all()
        np.testing.assert_allclose(weights, wanted, rtol=2e-5)


@pytest.mark.parametrize("activation", [moe.situ(4.0, 25.0), moe.situ(4.0), moe.SWIGLU])
def test_activations_agree_with_the_definition_far_out_too(activation: moe.Activation):
    gate = np.concatenate([_normal(7, 400) * 6, np.float32([0, 1e4, -1e4, 88, -100])])
    up = np.concatenate([_normal(8, 400) * 20, np.float32([1, 2, 3, 1e5, -1e5])])
    if activation.kind == "swiglu":
        exact = moe_reference.swiglu(gate, up)
    else:
        exact = moe_reference.situ_glu(gate, up, activation.beta, activation.linear_beta)
    np.testing.assert_allclose(activation(gate, up), exact, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mxfp4.quantise(_normal(0, 2, 40)), "multiple of 32"),
        (lambda: mxfp4.quantise(np.full((1, 32), np.inf, np.float32)), "not finite"),
        (lambda: mxfp4.quantise(np.ones((2, 32), np.int32)), "dtype int32"),
        (lambda: mxfp4.dequantise(np.zeros((2, 24), np.uint8), np.zeros((2, 1), np.uint8)), "multiple of 32"),
        (lambda: mxfp4.dequantise(np.zeros((2, 16), np.uint8), np.zeros((3, 1), np.uint8)), "shape"),
        (lambda: mxfp4.dequantise(np.zeros((2, 16), np.int8), np.zeros((2, 1), np.uint8)), "dtype int8"),
        (lambda: mxfp4.matmul(_normal(0, 1, 64), *mxfp4.quantise(_normal(0, 2, 32))), "shape"),
        (lambda: mxfp4.matmul(_normal(0, 1, 32), *mxfp4.quantise(_normal(0, 2, 32)), precision="f8"), "f8"),  # type: ignore[arg-type]
        (lambda: dense.matmul(_normal(0, 1, 8), _normal(0, 2, 9)), "shape"),
        (lambda: dense.matmul(_normal(0, 1, 8), np.ones((2, 8), np.float64)), "dtype float64"),
        (lambda: dense.matmul_int8(_normal(0, 1, 8), dense.quantise_int8(_normal(0, 2, 9))), "shape"),
        (lambda: dense.quantise_int8(np.full((1, 4), np.nan, np.float32)), "not finite"),
        (lambda: dense.short_conv(_normal(0, 2, 8), _normal(0, 8, 3), _normal(0, 3, 8)), "shape"),
        (lambda: moe.route(_normal(0, 2, 8), _normal(0, 4, 8), None, 5), "impossible"),
        (lambda: moe.situ(0.0), "positive"),
        (lambda: moe.experts(_normal(0, 2, 8), np.zeros((2, 1)), _normal(0, 2, 1), None, moe.SWIGLU), "ids"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call: object, says: str):
    with pytest.raises(KernelError, match=says):
        call()  # type: ignore[operator]

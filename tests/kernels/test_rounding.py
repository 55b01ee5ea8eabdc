"""Rounding to MXFP4: every version gives the very codes of the plain one, and tells the error it costs."""

from __future__ import annotations

import numpy as np
import pytest
from whimbrel.kernels import mxfp4
from whimbrel.kernels.arrays import KernelError
from whimbrel.kernels.mxfp4 import reference, vectorised


def weights(kind: str) -> np.ndarray:
    random = np.random.default_rng(7)
    plain = random.standard_normal((8, 128))
    return {
        "plain": plain,
        "every scale": np.clip(plain * 10.0 ** random.integers(-44, 38, (8, 128)), -3e38, 3e38),
        "ties": random.integers(-12, 13, (8, 128)) * 0.25,
        "zeros": np.zeros((2, 64)),
        "subnormal": plain * 1e-42,
    }[kind].astype(np.float32)


@pytest.mark.parametrize("kind", ["plain", "every scale", "ties", "zeros", "subnormal"])
def test_codes_and_scales_are_those_of_the_plain_version(variant: str, kind: str):
    w = weights(kind)
    packed, scales = vectorised.quantise(w)
    difference = mxfp4.dequantise(packed, scales).astype(np.float64) - w
    made = mxfp4.quantise_with_error(w)
    assert (made.packed == packed).all() and (made.scales == scales).all()
    assert made.squared_error == pytest.approx(float((difference**2).sum()), rel=1e-6, abs=1e-95)
    assert made.largest_error == pytest.approx(float(np.abs(difference).max()), rel=1e-6, abs=1e-46)


def test_they_are_those_of_the_definition():
    w = weights("plain")[:2]
    packed, scales = mxfp4.quantise(w)
    wanted, wanted_scales = reference.quantise(w)
    assert (packed == wanted).all() and (scales == wanted_scales).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_has_no_code(variant: str, value: float):
    w = weights("plain")
    w[3, 77] = value
    with pytest.raises(KernelError, match="not finite"):
        mxfp4.quantise(w)

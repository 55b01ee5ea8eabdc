"""Attention residuals and the RMS norm against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from whimbrel.kernels import mix
from whimbrel.kernels.mix import reference

pytestmark = pytest.mark.usefixtures("variant")


@pytest.mark.parametrize(("n", "tokens", "width"), [(1, 1, 8), (9, 3, 7168), (4, 70, 33), (2, 0, 5)])
def test_the_mix_follows_the_definition(n: int, tokens: int, width: int):
    made = np.random.default_rng(n)
    candidates = made.standard_normal((n, tokens, width), np.float32) * 3
    query = made.standard_normal(width, np.float32)
    got = mix.attn_res_mix(candidates, query, 1e-5)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, reference.attn_res_mix(candidates, query, 1e-5), rtol=2e-4, atol=2e-4)


def test_a_candidate_of_zeros_is_mixed_by_its_score_of_zero():
    candidates = np.zeros((2, 1, 4), np.float32)
    candidates[1] = [1, 1, 1, 1]
    got = mix.attn_res_mix(candidates, np.zeros(4, np.float32), 1e-5)
    np.testing.assert_allclose(got, np.full((1, 4), 0.5))


@pytest.mark.parametrize("shape", [(7168,), (3, 33), (2, 5, 16), (0, 4)])
def test_the_norm_follows_the_definition(shape: tuple[int, ...]):
    made = np.random.default_rng(1)
    x, w = made.standard_normal(shape, np.float32), made.standard_normal(shape[-1], np.float32)
    got = mix.rms_norm(x, w, 1e-5)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, reference.rms_norm(x, w, 1e-5), rtol=3e-6, atol=1e-6)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="expected candidates"):
        mix.attn_res_mix(np.zeros((2, 3, 4), np.float32), np.zeros(5, np.float32), 1e-5)
    with pytest.raises(ValueError, match="expected candidates"):
        mix.attn_res_mix(np.zeros((0, 3, 4), np.float32), np.zeros(4, np.float32), 1e-5)
    with pytest.raises(ValueError, match=r"expected x"):
        mix.rms_norm(np.zeros((3, 4), np.float32), np.zeros(5, np.float32), 1e-5)

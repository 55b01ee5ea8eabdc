"""Cached rows in eight bits: e4m3 values with float32 scales that are powers of two.

Keys of the indexer: 128 values and one scale, 132 bytes. Latent rows: 512 values in four groups of 128 with a
scale each, then the 64 shared key channels in bfloat16, 656 bytes. A power of two keeps value times scale
exact in bfloat16, so the kernels lose nothing beyond this rounding (3 bits of mantissa: 2.6 % relative RMS).
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, KernelError

GROUP = 128
LARGEST = 448.0
"""The largest e4m3 number."""
SCALE_BYTES = 4
LATENT, SHARED = 512, 64
LATENT_BYTES = LATENT + LATENT // GROUP * SCALE_BYTES + 2 * SHARED


def _codes(values: Array) -> tuple[Array, Array]:
    """f32 [..., G] to (u8 of the same shape, f32 scales [...]). Raises KernelError for what is not finite."""
    import ml_dtypes

    highest = np.abs(values).max(axis=-1, initial=0.0)
    if not np.isfinite(highest).all():
        raise KernelError("rows with NaN or infinity cannot be held in eight bits")
    # The smallest power of two that brings the largest value within reach; 1 for a row of zeros.
    _, exponent = np.frexp(np.where(highest > 0, highest, LARGEST) / np.float32(LARGEST))
    exact = np.ldexp(np.float32(LARGEST), exponent - 1) >= np.where(highest > 0, highest, LARGEST)
    scale = np.ldexp(np.float32(1), np.clip(exponent - exact, -100, 100)).astype(np.float32)
    codes = (values / scale[..., None]).astype(ml_dtypes.float8_e4m3fn)
    return codes.view(np.uint8), scale


def _values(codes: Array, scale: Array) -> Array:
    import ml_dtypes

    return codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale[..., None]


def pack_keys(keys: Array) -> Array:
    """f32 [..., D] to u8 [..., D + 4]: D codes, then their scale (little endian)."""
    codes, scale = _codes(keys.astype(np.float32))
    return np.concatenate((codes, scale[..., None].astype("<f4").view(np.uint8)), axis=-1)


def unpack_keys(packed: Array) -> Array:
    """u8 [..., D + 4] to f32 [..., D]."""
    packed = np.ascontiguousarray(packed)
    scale = np.ascontiguousarray(packed[..., -SCALE_BYTES:]).view("<f4")[..., 0]
    return _values(np.ascontiguousarray(packed[..., :-SCALE_BYTES]), scale)


def pack_latents(latents: Array, pe: Array) -> Array:
    """f32 [..., 512] and [..., 64] to u8 [..., 656]."""
    import ml_dtypes

    if latents.shape[-1] != LATENT or pe.shape != (*latents.shape[:-1], SHARED):
        raise KernelError(
            f"eight-bit rows hold {LATENT} + {SHARED} values; got {latents.shape} and {pe.shape}"
        )
    before = latents.shape[:-1]
    codes, scale = _codes(latents.astype(np.float32).reshape(*before, LATENT // GROUP, GROUP))
    shared = np.ascontiguousarray(pe.astype(ml_dtypes.bfloat16)).view(np.uint8)
    return np.concatenate(
        (codes.reshape(*before, LATENT), scale.astype("<f4").view(np.uint8), shared), axis=-1
    )


def unpack_latents(packed: Array) -> tuple[Array, Array]:
    """u8 [..., 656] to f32 [..., 512] and [..., 64]."""
    import ml_dtypes

    before = packed.shape[:-1]
    codes = np.ascontiguousarray(packed[..., :LATENT]).reshape(*before, LATENT // GROUP, GROUP)
    scale = np.ascontiguousarray(packed[..., LATENT : LATENT_BYTES - 2 * SHARED]).view("<f4")
    shared = np.ascontiguousarray(packed[..., LATENT_BYTES - 2 * SHARED :]).view(ml_dtypes.bfloat16)
    return _values(codes, scale).reshape(*before, LATENT), shared.astype(np.float32)

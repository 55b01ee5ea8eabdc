"""Residuals: the attention-residual mix over earlier blocks, and the RMS norm."""

from .ops import attn_res_mix, rms_norm

__all__ = ["attn_res_mix", "rms_norm"]

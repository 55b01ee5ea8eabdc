"""Dense products with bfloat16, float32 and eight-bit weights, and the short convolution."""

from .ops import Int8Weight, Precision, matmul, matmul_int8, quantise_int8, short_conv

__all__ = ["Int8Weight", "Precision", "matmul", "matmul_int8", "quantise_int8", "short_conv"]

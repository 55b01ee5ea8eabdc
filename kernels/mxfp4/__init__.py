"""MXFP4 weights: four bits a value and one power of two for every 32 columns."""

from .ops import Precision, dequantise, matmul, quantise

__all__ = ["Precision", "dequantise", "matmul", "quantise"]

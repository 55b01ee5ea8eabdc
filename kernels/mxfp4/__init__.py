"""MXFP4 weights: four bits a value and one power of two for every 32 columns."""

from .ops import Precision, dequantise, matmul, quantise, quantise_with_error
from .rounding import Rounded

__all__ = ["Precision", "Rounded", "dequantise", "matmul", "quantise", "quantise_with_error"]

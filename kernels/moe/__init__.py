"""Mixture of experts: the router, the gated activations, the grouped expert product."""

from .activation import SWIGLU, Activation, situ, situ_glu, swiglu
from .ops import Expert, Weight, experts, multiply, route

__all__ = [
    "SWIGLU",
    "Activation",
    "Expert",
    "Weight",
    "experts",
    "multiply",
    "route",
    "situ",
    "situ_glu",
    "swiglu",
]

"""Gated activations in float32: SiTU-GLU (Kimi K3) and SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, KernelError, as_f32


@dataclass(frozen=True)
class Activation:
    """act(gate, up), by name, so that a whole layer of experts can run in one native call."""

    kind: str
    """"situ" or "swiglu"."""
    beta: float = 0.0
    linear_beta: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("situ", "swiglu"):
            raise KernelError(f"there is no activation {self.kind!r}; situ or swiglu is needed")
        if self.kind == "situ" and not self.beta > 0:
            raise KernelError(f"SiTU needs a positive beta, not {self.beta}")
        if self.linear_beta is not None and not self.linear_beta > 0:
            raise KernelError(f"SiTU needs a positive linear beta, not {self.linear_beta}")

    def numbers(self) -> tuple[int, float, float]:
        """The kind (0 SwiGLU, 1 SiTU), beta and linear beta (0: none), as the native call takes them."""
        return int(self.kind == "situ"), self.beta, self.linear_beta or 0.0

    def __call__(self, gate: Array, up: Array) -> Array:
        """float32 arrays of one shape -> float32 of that shape."""
        gate = as_f32("gate", gate, *(None,) * gate.ndim)
        up = as_f32("up", up, *gate.shape)
        if self.kind == "swiglu":
            return sigmoid(gate) * gate * up
        beta = np.float32(self.beta)
        linear = up if self.linear_beta is None else np.tanh(up / np.float32(self.linear_beta))
        factor = beta if self.linear_beta is None else beta * np.float32(self.linear_beta)
        return factor * np.tanh(gate / beta) * sigmoid(gate) * linear


SWIGLU = Activation("swiglu")


def situ(beta: float, linear_beta: float | None = None) -> Activation:
    """SiTU-GLU with the two limits of the configuration."""
    return Activation("situ", beta, linear_beta)


def situ_glu(gate: Array, up: Array, beta: float, linear_beta: float | None = None) -> Array:
    """beta tanh(gate / beta) sigmoid(gate) * (b tanh(up / b)); b is linear_beta, without it it is `up`."""
    return situ(beta, linear_beta)(gate, up)


def swiglu(gate: Array, up: Array) -> Array:
    """gate sigmoid(gate) * up."""
    return SWIGLU(gate, up)


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)) in float32."""
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp(-z))

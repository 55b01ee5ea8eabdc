"""Matrices of the model, each behind one call: x[T, C] -> f32[T, R], whatever form the weights have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...kernels import dense, mxfp4
from .checkpoint import Checkpoint
from .safetensors import Array


class Linear(Protocol):
    """A matrix of R rows and C columns."""

    @property
    def nbytes(self) -> int:
        """Bytes one product reads."""
        ...

    def __call__(self, x: Array) -> Array: ...


@dataclass(frozen=True)
class Dense:
    """float32 or bfloat16 weights; `exact`: activations are never rounded."""

    weight: Array
    exact: bool

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Array) -> Array:
        return dense.matmul(x, self.weight, precision="f32" if self.exact else "auto")


@dataclass(frozen=True)
class Eight:
    """Weights rounded to eight bits when the model was loaded."""

    weight: dense.Int8Weight
    exact: bool

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Array) -> Array:
        return dense.matmul_int8(x, self.weight, precision="f32" if self.exact else "auto")


@dataclass(frozen=True)
class Packed:
    """MXFP4 weights as stored."""

    packed: Array
    scales: Array
    exact: bool

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes + self.scales.nbytes

    def __call__(self, x: Array) -> Array:
        return mxfp4.matmul(x, self.packed, self.scales, precision="f32" if self.exact else "auto")


@dataclass(frozen=True)
class Chain:
    """Two matrices one after the other (a low-rank pair)."""

    first: Linear
    second: Linear

    @property
    def nbytes(self) -> int:
        return self.first.nbytes + self.second.nbytes

    def __call__(self, x: Array) -> Array:
        return self.second(self.first(x))


@dataclass(frozen=True)
class Loader:
    """Makes matrices out of a checkpoint's tensors.

    Args:
        exact: no rounding of activations (the mode that golden numbers are checked in).
        int8: round the large dense matrices to eight bits.
    """

    checkpoint: Checkpoint
    exact: bool
    int8: bool

    def linear(self, name: str, rows: int, columns: int, *, small: bool = False) -> Linear:
        """The matrix `name` (without ``.weight``). `small`: one that is not worth rounding, or must not be."""
        checkpoint = self.checkpoint
        if checkpoint.has(f"{name}.weight_packed"):
            return Packed(*checkpoint.packed(name, rows, columns), self.exact)
        weight = checkpoint.matrix(f"{name}.weight", rows, columns)
        if self.int8 and not small:
            return Eight(dense.quantise_int8(weight), self.exact)
        return Dense(weight, self.exact)

    def exact_linear(self, name: str, rows: int, columns: int) -> Dense:
        """A matrix whose products are float32 in every mode: the router, the decay, the indexer."""
        weight = self.checkpoint.matrix(f"{name}.weight", rows, columns)
        return Dense(np.ascontiguousarray(weight, np.float32), True)

"""Matrices of the model, each behind one call: x[T, C] -> f32[T, R], whatever form the weights have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...kernels import dense, moe, mxfp4
from ...kernels.arrays import KernelError
from ...sandbox.base.errors import ModelError
from .checkpoint import Checkpoint
from .safetensors import Array
from .threads import in_bands


@dataclass(frozen=True)
class Linear:
    """One matrix: float32, bfloat16, eight bits or MXFP4; `exact`: activations are never rounded."""

    weight: moe.Weight
    exact: bool

    @property
    def precision(self) -> mxfp4.Precision:
        return "f32" if self.exact else "auto"

    @property
    def nbytes(self) -> int:
        """Bytes one product reads."""
        if isinstance(self.weight, tuple):
            return sum(part.nbytes for part in self.weight)
        return self.weight.nbytes

    def __call__(self, x: Array) -> Array:
        return moe.multiply(x, self.weight, precision=self.precision)


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
        """The matrix `name` (without ``.weight``). `small`: never rounded to eight bits."""
        checkpoint = self.checkpoint
        if checkpoint.has(f"{name}.weight_packed"):
            return Linear(checkpoint.packed(name, rows, columns), self.exact)
        weight = checkpoint.matrix(f"{name}.weight", rows, columns)
        if self.int8 and not small:
            try:
                return Linear(_eight_bits(weight), self.exact)
            except KernelError as error:
                raise ModelError(f"{checkpoint.folder}: {checkpoint.prefix}{name}.weight: {error}") from error
        return Linear(weight, self.exact)

    def widened(self, name: str, rows: int, columns: int) -> Array:
        """The matrix `name` as a float32 array."""
        return np.ascontiguousarray(self.checkpoint.matrix(f"{name}.weight", rows, columns), np.float32)


def _eight_bits(weight: Array) -> dense.Int8Weight:
    """`quantise_int8`, the rows divided among threads: a large model has seconds of this to do."""
    bands = in_bands(weight.shape[0], lambda band: dense.quantise_int8(weight[band]))
    if len(bands) == 1:
        return bands[0]
    return dense.Int8Weight(
        np.concatenate([band.codes for band in bands]), np.concatenate([band.scales for band in bands])
    )

"""The vision tower (full attention within an image, rotary positions in two dimensions) and the projector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....kernels.dense import matmul
from ....sandbox.base.errors import ModelError
from ..checkpoint import FLOATS, Checkpoint
from ..safetensors import Array
from .config import VisionConfig, read_vision_config
from .preprocess import Patches, preprocess
from .sizes import ImageLimits

EPS_OF = {"BF16": 2.0**-7, "F16": 2.0**-10, "F32": 2.0**-23, "F64": 2.0**-52}
"""The tower's norms use the machine epsilon of the dtype the checkpoint stores, whatever we compute in."""
SCORES_AT_ONCE = 1 << 24
"""Attention weights held at one time."""


@dataclass(frozen=True)
class Block:
    """One pre-norm block; matrices [out, in]."""

    norm0: Array
    qkv: Array
    out: Array
    norm1: Array
    up: Array
    down: Array


@dataclass(frozen=True)
class VisionModel:
    """All weights, and what they need to be told."""

    config: VisionConfig
    limits: ImageLimits
    eps: float
    patch: Array
    positions: Array
    """f32[rows, columns, hidden], the learned table."""
    blocks: tuple[Block, ...]
    final_norm: Array
    project_in: Array
    project_out: Array
    post_norm: Array

    @classmethod
    def load(cls, folder: Path, checkpoint: Checkpoint | None = None) -> VisionModel:
        """Of a checkpoint folder.

        Raises:
            ConfigError, ModelError: the config or the tensors cannot be used.
        """
        config, limits = read_vision_config(folder)
        read = _Reader(checkpoint or Checkpoint(folder))
        merged = config.hidden * config.merge[0] * config.merge[1]
        encoder = "vision_tower.encoder"
        rows, columns = config.table
        blocks = [
            Block(
                norm0=read(f"{encoder}.blocks.{n}.norm0", config.hidden),
                qkv=read(f"{encoder}.blocks.{n}.wqkv", 3 * config.qkv, config.hidden),
                out=read(f"{encoder}.blocks.{n}.wo", config.hidden, config.qkv),
                norm1=read(f"{encoder}.blocks.{n}.norm1", config.hidden),
                up=read(f"{encoder}.blocks.{n}.mlp.fc0", config.inner, config.hidden),
                down=read(f"{encoder}.blocks.{n}.mlp.fc1", config.hidden, config.inner),
            )
            for n in range(config.layers)
        ]
        patch = read("vision_tower.patch_embed.proj", config.hidden, 3, config.patch, config.patch)
        return cls(
            config=config,
            limits=limits,
            eps=EPS_OF[read.dtype],
            patch=patch.reshape(config.hidden, -1),
            positions=read("vision_tower.patch_embed.pos_emb", rows, columns, config.hidden),
            blocks=tuple(blocks),
            final_norm=read(f"{encoder}.final_layernorm", config.hidden),
            project_in=read("mm_projector.proj.0", merged, merged),
            project_out=read("mm_projector.proj.2", config.text_hidden, merged),
            post_norm=read("mm_projector.post_norm", config.text_hidden),
        )

    def __call__(self, data: bytes) -> tuple[Patches, Array]:
        """An encoded image: its patches, and f32[tokens, text hidden] for the text model."""
        patches = preprocess(data, self.limits)
        return patches, self.project(self.tower(patches))

    def tower(self, patches: Patches) -> Array:
        """f32[tokens, 4 hidden]: after the final norm and the merge of each 2 x 2 patches."""
        config = self.config
        _, rows, columns = patches.grid
        x = matmul(patches.pixels.reshape(patches.pixels.shape[0], -1), self.patch)
        x += interpolated(self.positions, rows, columns).reshape(-1, config.hidden)
        turn = rotations(rows, columns, config.head_dim)
        for block in self.blocks:
            x += self._attend(_rms(x, block.norm0, self.eps), block, turn)
            middle = gelu_tanh(matmul(_rms(x, block.norm1, self.eps), block.up))
            x += matmul(middle, block.down)
        x = _rms(x, self.final_norm, self.eps)
        down, across = config.merge
        grid = x.reshape(rows // down, down, columns // across, across, config.hidden)
        return np.ascontiguousarray(grid.transpose(0, 2, 1, 3, 4).reshape(-1, down * across * config.hidden))

    def project(self, merged: Array) -> Array:
        """f32[tokens, 4 hidden] -> f32[tokens, text hidden]."""
        y = matmul(gelu(matmul(merged, self.project_in)), self.project_out)
        return _rms(y, self.post_norm, self.config.projector_eps)

    def _attend(self, x: Array, block: Block, turn: Array) -> Array:
        config = self.config
        count, heads, dim = x.shape[0], config.heads, config.head_dim
        q, k, v = matmul(x, block.qkv).reshape(count, 3, heads, dim).transpose(1, 2, 0, 3)
        q, k = _turned(q, turn) * np.float32(dim**-0.5), _turned(k, turn)
        keys, values = k.transpose(0, 2, 1), np.ascontiguousarray(v)
        out = np.empty((count, heads, dim), np.float32)
        step = max(1, SCORES_AT_ONCE // (heads * count))
        for start in range(0, count, step):
            scores = np.matmul(q[:, start : start + step], keys)
            scores -= scores.max(axis=2, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=2, keepdims=True)
            out[start : start + step] = np.matmul(scores, values).transpose(1, 0, 2)
        return matmul(out.reshape(count, heads * dim), block.out)


class _Reader:
    """Tensors by their whole name, as float32, all of one dtype."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self.dtype = ""

    def __call__(self, name: str, *shape: int) -> Array:
        file, entry = self._checkpoint.outside(f"{name}.weight")
        if entry.shape != shape or entry.dtype not in FLOATS:
            raise ModelError(
                f"{file.path}: {entry.name} is {entry.dtype}{list(entry.shape)};"
                f" config.json asks for floating point of {list(shape)}"
            )
        self.dtype = self.dtype or entry.dtype
        return np.ascontiguousarray(file.read(entry.name), np.float32)


def interpolated(table: Array, rows: int, columns: int) -> Array:
    """The position table for a grid, bilinear between the middles of cells (f32[rows, columns, C])."""
    height, width, _ = table.shape
    if (rows, columns) == (height, width):
        return table
    low_r, high_r, part_r = _between(height, rows)
    low_c, high_c, part_c = _between(width, columns)
    part_c = part_c[None, :, None]
    above = table[low_r][:, low_c] * (1 - part_c) + table[low_r][:, high_c] * part_c
    below = table[high_r][:, low_c] * (1 - part_c) + table[high_r][:, high_c] * part_c
    return above * (1 - part_r[:, None, None]) + below * part_r[:, None, None]


def _between(size: int, count: int) -> tuple[Array, Array, Array]:
    place = np.maximum(
        (np.arange(count, dtype=np.float32) + np.float32(0.5)) * np.float32(size / count) - np.float32(0.5), 0
    )
    low = np.minimum(place.astype(np.int64), size - 1)
    return low, np.minimum(low + 1, size - 1), (place - low).astype(np.float32)


def rotations(rows: int, columns: int, head_dim: int) -> Array:
    """complex64[rows * columns, head_dim / 2]: pairs of channels turn by column, by row, per frequency."""
    frequency = 10_000.0 ** (-4.0 * np.arange(head_dim // 4) / head_dim)
    y, x = np.divmod(np.arange(rows * columns), columns)
    angles = np.stack((x[:, None] * frequency, y[:, None] * frequency), axis=2)
    return np.exp(1j * angles.reshape(rows * columns, head_dim // 2)).astype(np.complex64)


def _turned(z: Array, turn: Array) -> Array:
    """z f32[heads, n, dim], adjacent channels as complex numbers, times the rotations."""
    pairs = np.ascontiguousarray(z).view(np.complex64)
    return (pairs * turn).view(np.float32)


def _rms(x: Array, weight: Array, eps: float) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def gelu_tanh(x: Array) -> Array:
    """The approximation with tanh."""
    inner = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(inner))


def gelu(x: Array) -> Array:
    """x times the standard normal distribution function, exact to float32's precision.

    The complementary error function by a polynomial in the exponent (relative error below 1.2e-7).
    """
    z = np.abs(x).astype(np.float64) * 0.5**0.5
    t = 1.0 / (1.0 + 0.5 * z)
    powers = 0.0
    for coefficient in _ERFC:
        powers = powers * t + coefficient
    half = 0.5 * t * np.exp(-z * z + powers)
    return (x * np.where(x >= 0, 1.0 - half, half)).astype(np.float32)


_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196,
    1.00002368, -1.26551223,
)  # fmt: skip
"""Highest power first (Press et al., Numerical Recipes, the Chebyshev fit of erfc)."""

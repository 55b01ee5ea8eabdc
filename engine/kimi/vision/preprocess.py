"""From an encoded image to patches: made smaller where needed, padded, scaled to -1..1, cut into squares."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

import numpy as np
from PIL import Image

from ....sandbox.base.errors import UsageError
from ..safetensors import Array
from .sizes import ImageLimits

MOST_PIXELS = 100_000_000
"""Of an image as it comes; more is refused before it is decoded."""


@dataclass(frozen=True)
class Patches:
    """One image.

    Attributes:
        pixels: f32[n, 3, patch, patch], row after row of the grid, each value in -1..1.
        grid: frames, rows and columns of patches.
        size: width and height of the image as it came, in pixels.
        tokens: rows it takes in the text model.
    """

    pixels: Array
    grid: tuple[int, int, int]
    size: tuple[int, int]
    tokens: int


def preprocess(data: bytes, limits: ImageLimits) -> Patches:
    """Patches of an encoded image; transparency is dropped, not mixed with a background.

    Raises:
        UsageError: it is no image, a damaged one, or one of too many pixels.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data))
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise UsageError(f"the image has {width} x {height} pixels; {MOST_PIXELS} are the limit")
            image = image.convert("RGB")
    except UsageError:
        raise
    except (
        OSError,
        ValueError,
        SyntaxError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        raise UsageError(f"the image cannot be read: {error}", hint="give a PNG or JPEG file") from error
    size = limits.size(width, height)
    if size != image.size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    columns, rows = limits.grid(width, height)
    canvas = np.zeros((rows * limits.patch, columns * limits.patch, 3), np.uint8)
    canvas[: size[1], : size[0]] = np.asarray(image)
    values = (canvas.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    squares = values.reshape(rows, limits.patch, columns, limits.patch, 3).transpose(0, 2, 4, 1, 3)
    pixels = np.ascontiguousarray(squares.reshape(rows * columns, 3, limits.patch, limits.patch))
    return Patches(pixels, (1, rows, columns), (width, height), limits.rows(width, height))

"""Images against golden numbers: ``imageN.png`` beside ``golden.safetensors`` with what each should give.

Per image: ``pixel_values``, ``grid_thw`` (frames, rows, columns of patches), ``tower`` (after the final norm
and the merge) and ``projected`` (after the projector's norm).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from ....sandbox.base.errors import ModelError
from ....sandbox.base.files import read_regular
from ..checkpoint import GOLDEN
from ..safetensors import Array, SafetensorsFile
from ..verify import Comparison
from .tower import VisionModel

TOLERANCE = 1e-5


def has_golden_images(folder: Path) -> bool:
    """Whether the folder's golden numbers are (also) about images."""
    path = folder / GOLDEN
    return path.is_file() and any(_number(name) is not None for name in SafetensorsFile(path).entries)


def has_text_model(folder: Path) -> bool:
    """Whether the folder's config describes a text model."""
    try:
        found: Any = json.loads(read_regular(folder / "config.json").decode("utf-8-sig"))
    except (OSError, ValueError):
        return True  # whoever reads it for the text model says what is wrong
    return not isinstance(found, dict) or "text_config" in found or "num_hidden_layers" in found


def verify_images(folder: Path) -> list[Comparison]:
    """Compare the vision part of a checkpoint with the golden numbers in its folder.

    Raises:
        ConfigError, ModelError: the checkpoint cannot be used, or an image is missing.
    """
    model = VisionModel.load(folder)
    golden = SafetensorsFile(folder / GOLDEN)
    numbers = sorted({n for name in golden.entries if (n := _number(name)) is not None})
    found: list[Comparison] = []
    for number in numbers:
        path = folder / f"image{number}.png"
        try:
            data = read_regular(path)
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
        patches, projected = model(data)
        ours = {
            "grid_thw": np.array(patches.grid),
            "pixel_values": patches.pixels,
            "tower": model.tower(patches),
            "projected": projected,
        }
        for what, rows in ours.items():
            name = f"image{number}.{what}"
            if name in golden.entries:
                found.append(
                    _compare(name, rows, golden.read(name), 0.0 if what == "grid_thw" else TOLERANCE)
                )
    return found


def _number(name: str) -> int | None:
    match = re.fullmatch(r"image(\d+)\.\w+", name)
    return int(match[1]) if match else None


def _compare(name: str, ours: Array, golden: Array, tolerance: float) -> Comparison:
    if ours.shape != golden.shape:
        return Comparison(name, float("inf"), float("inf"), tolerance)
    wanted = golden.astype(np.float64)
    absolute = float(np.abs(ours - wanted).max(initial=0.0))
    largest = float(np.abs(wanted).max(initial=0.0))
    return Comparison(name, absolute, absolute / largest if largest else 0.0, tolerance)

"""What config.json and preprocessor_config.json say about images."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ....sandbox.base.errors import ConfigError
from ....sandbox.base.files import read_regular
from .sizes import IN_PATCH_LIMIT, SIDE_LIMIT, ImageLimits

_ONLY: Mapping[str, Any] = {
    "norm_type": "rmsnorm", "attn_bias": False, "linear_bias": False, "patch_embed_proj_bias": False,
    "mlp_type": "mlp2", "merge_type": "sd2_tpool", "mm_projector_type": "patchmergerv2",
    "pos_emb_interpolation_mode": "bilinear", "projector_hidden_act": "gelu",
}  # fmt: skip
"""Settings of which only this value is known; another one is refused, never ignored."""


@dataclass(frozen=True)
class VisionConfig:
    """The tower and the projector."""

    patch: int
    table: tuple[int, int]
    """Rows and columns of the learned position table."""
    hidden: int
    inner: int
    heads: int
    layers: int
    qkv: int
    merge: tuple[int, int]
    text_hidden: int
    projector_eps: float

    @property
    def head_dim(self) -> int:
        return self.qkv // self.heads


def read_vision_config(folder: Path) -> tuple[VisionConfig, ImageLimits]:
    """Of a checkpoint folder.

    Raises:
        ConfigError: there is no vision part, a key is missing or wrong, or a setting is not known.
    """
    whole = _read(folder / "config.json")
    given: Any = whole.get("vision_config")
    if not isinstance(given, dict):
        raise ConfigError(f"{folder / 'config.json'} has no vision_config", hint="the model takes no images")
    vision = cast("dict[str, Any]", given)
    for key, value in _ONLY.items():
        if vision.get(key, value) != value:
            raise ConfigError(f"vision_config.{key} is {vision[key]!r}; only {value!r} is known")

    def number(key: str) -> int:
        value: Any = vision.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"vision_config.{key} is {value!r}; a whole number above 0 is needed")
        return value

    merge: Any = vision.get("merge_kernel_size", [2, 2])
    if merge != [2, 2]:
        raise ConfigError(f"vision_config.merge_kernel_size is {merge!r}; only [2, 2] is known")
    config = VisionConfig(
        patch=number("patch_size"),
        table=(number("init_pos_emb_height"), number("init_pos_emb_width")),
        hidden=number("vt_hidden_size"),
        inner=number("vt_intermediate_size"),
        heads=number("vt_num_attention_heads"),
        layers=number("vt_num_hidden_layers"),
        qkv=number("qkv_hidden_size"),
        merge=(2, 2),
        text_hidden=number("text_hidden_size"),
        projector_eps=float(vision.get("projector_ln_eps", 1e-5)),
    )
    if config.qkv % config.heads or config.head_dim % 4:
        raise ConfigError(
            f"vision_config.qkv_hidden_size {config.qkv} over {config.heads} heads leaves no multiple of 4"
        )
    return config, _limits(folder, whole, config)


def _limits(folder: Path, whole: Mapping[str, Any], config: VisionConfig) -> ImageLimits:
    file = folder / "preprocessor_config.json"
    processor = _read(file) if file.is_file() else whole
    given: Any = processor.get("media_proc_cfg") or {}
    if not isinstance(given, dict):
        raise ConfigError(f"{file}: media_proc_cfg is no JSON object")
    media = cast("dict[str, Any]", given)
    patches, side = (
        media.get("in_patch_limit", IN_PATCH_LIMIT),
        media.get("patch_limit_on_one_side", SIDE_LIMIT),
    )
    for key, value in (("in_patch_limit", patches), ("patch_limit_on_one_side", side)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{file}: media_proc_cfg.{key} is {value!r}; a whole number above 0 is needed")
    for key in ("image_mean", "image_std"):
        if media.get(key, [0.5] * 3) != [0.5] * 3:
            raise ConfigError(f"{file}: media_proc_cfg.{key} is {media[key]!r}; only 0.5 is known")
    return ImageLimits(config.patch, config.merge[0], patches, side)


def _read(file: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(read_regular(file).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} is no JSON object")
    return cast("dict[str, Any]", found)

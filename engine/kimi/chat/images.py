"""Images in a prompt: what stands for them, and how many tokens they take."""

from __future__ import annotations

import base64
import binascii
import importlib
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...chat import ImagePart
from .syntax import PromptError

BEGIN, CONTENT, PAD, END = "<|media_begin|>", "<|media_content|>", "<|media_pad|>", "<|media_end|>"


@dataclass(frozen=True)
class ImagePlace:
    """Where an image's embeddings go in the prompt.

    Args:
        start: index into the ids of the first placeholder.
        count: placeholders, one per embedding row.
        width, height: pixels of the image as it came.
        data: the encoded image (PNG, JPEG, ...).
    """

    start: int
    count: int
    width: int
    height: int
    data: bytes


@dataclass(frozen=True)
class Image:
    """An image of the conversation, looked at only as far as its size."""

    width: int
    height: int
    data: bytes

    @property
    def prompt(self) -> str:
        return f"{BEGIN}image {self.width}x{self.height}{CONTENT}{PAD}{END}"


def read_image(item: Mapping[str, Any]) -> Image:
    """The image of a content item.

    Raises:
        PromptError: an address instead of data (nothing is downloaded), or data that is no image.
    """
    part = item.get("image")
    if isinstance(part, ImagePart):
        encoded = part.data_base64
    else:
        holder: Any = item.get("image_url", part)
        url: Any = cast(Mapping[str, Any], holder).get("url") if isinstance(holder, Mapping) else holder
        if not isinstance(url, str):
            raise PromptError("an image item of a message holds no image")
        scheme, comma, encoded = url.partition(",")
        if not comma or not scheme.startswith("data:") or not scheme.endswith(";base64"):
            raise PromptError(
                "an image is given by its address and nothing is downloaded",
                hint="send the image itself: data:image/png;base64,...",
            )
    try:
        data = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error) as error:
        raise PromptError("an image of the conversation is no base64") from error
    width, height = _size(data)
    return Image(width, height, data)


def _size(data: bytes) -> tuple[int, int]:
    pillow: Any = importlib.import_module("PIL.Image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(io.BytesIO(data)) as image:
                width, height = image.size
    except (OSError, ValueError, SyntaxError, Warning, pillow.DecompressionBombError) as error:
        raise PromptError(
            "an image of the conversation is damaged, too large or of an unknown kind"
        ) from error
    if width < 1 or height < 1:
        raise PromptError("an image of the conversation is empty")
    return int(width), int(height)

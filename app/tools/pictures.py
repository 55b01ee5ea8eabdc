"""Pictures on their way to a model: judged by content, no larger than models see, nothing but pixels."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine.chat import ImagePart
from ...sandbox.base.errors import ToolError
from ..repo.files import read_regular
from .reading import binary_kind

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_FILE_BYTES = 32 << 20
MAX_PIXELS = 50_000_000
"""Of the picture in the file; its decoded form takes four bytes for each."""
MAX_EDGE = 1568
"""Pixels of the longer side of what is sent; models see no more than about this."""
MAX_SENT_BYTES = 3 << 20
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


@dataclass(frozen=True)
class Picture:
    """What is sent of a picture, and what the picture was; sizes are (width, height) in pixels."""

    part: ImagePart
    kind: str
    size: tuple[int, int]
    sent_size: tuple[int, int]
    sent_bytes: int
    frames: int


def read_picture(name: str, data: bytes) -> Picture:
    """Decodes a file's bytes; blocking.

    Raises:
        ToolError: no PNG, JPEG, GIF or WebP, damaged, or too large; ``name`` stands in it.
    """
    image, kind, size, frames = _decode(name, data)
    media_type, sent = _encode(image, kind)
    part = ImagePart(media_type=media_type, data_base64=base64.b64encode(sent).decode("ascii"))
    return Picture(part, kind, size, (image.width, image.height), len(sent), frames)


def picture_of_file(path: Path) -> Picture:
    """A picture that the person names, from anywhere; links to it are followed. Blocking.

    Raises:
        ToolError: as read_picture; or it is no regular file, cannot be read, or is over MAX_FILE_BYTES.
    """
    name = path.name
    try:
        real = path.resolve(strict=True)
        data = read_regular(real.parent, real.name, MAX_FILE_BYTES)
    except FileNotFoundError as error:
        raise ToolError(f"{name} does not exist") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise ToolError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if data is None:
        raise ToolError(f"{name} is over {MAX_FILE_BYTES >> 20} MiB, too large to show")
    return read_picture(name, data)


def picture_of_base64(name: str, text: str) -> Picture:
    """A picture as protocols carry it. Blocking.

    Raises:
        ToolError: as read_picture; or it is not base64, or over MAX_FILE_BYTES.
    """
    if len(text) > MAX_FILE_BYTES * 4 // 3 + 4:
        raise ToolError(f"{name} is over {MAX_FILE_BYTES >> 20} MiB, too large to show")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"{name} is not base64") from error
    return read_picture(name, data)


def _decode(path: str, data: bytes) -> tuple[Image, str, tuple[int, int], int]:
    """(picture no larger than MAX_EDGE, format, size in the file, number of frames); judged by content."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the size is checked here, and more strictly
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
            kind, size = str(image.format), image.size
            if size[0] * size[1] > MAX_PIXELS:
                raise ToolError(
                    f"{path} has {size[0]} x {size[1]} pixels, too many to decode",
                    hint="make a smaller copy and take that",
                )
            frames = int(getattr(image, "n_frames", 1))
            if kind == "JPEG":
                image.draft("RGB", (MAX_EDGE, MAX_EDGE))
            image.load()
            upright = ImageOps.exif_transpose(image)
            turned = upright.size != image.size
            clear = upright.convert("RGBA" if _has_alpha(upright) else "RGB")
            clear.thumbnail((MAX_EDGE, MAX_EDGE))
    except UnidentifiedImageError as error:
        what = binary_kind(data[:65536]) or "text"
        raise ToolError(
            f"{path} is {what if data else 'empty'}, not a PNG, JPEG, GIF or WebP image",
            hint="read shows text, SVG included",
        ) from error
    except ToolError:
        raise
    except Image.DecompressionBombError as error:
        raise ToolError(f"{path} has far too many pixels to decode, and is not shown") from error
    except Exception as error:
        raise ToolError(f"{path} is damaged and cannot be shown: {error}") from error
    return clear, kind, (size[1], size[0]) if turned else size, frames


def _has_alpha(image: Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info


def _encode(image: Image, kind: str) -> tuple[str, bytes]:
    """Media type and bytes; JPEG where a PNG would be too large. Nothing but pixels is passed on."""

    def saved(form: str, **options: Any) -> bytes:
        out = io.BytesIO()
        clean = image if form == "PNG" else image.convert("RGB")
        clean.info.clear()
        clean.save(out, form, **options)
        return out.getvalue()

    if kind != "JPEG":
        data = saved("PNG", optimize=False)
        if len(data) <= MAX_SENT_BYTES:
            return "image/png", data
    for quality in (90, 70, 50):
        data = saved("JPEG", quality=quality)
        if len(data) <= MAX_SENT_BYTES:
            return "image/jpeg", data
    image.thumbnail((MAX_EDGE // 2, MAX_EDGE // 2))
    return "image/jpeg", saved("JPEG", quality=50)

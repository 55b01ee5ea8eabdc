"""The ``view_image`` tool: shows a picture of the workspace to a model that can see.

The picture goes to the model in a user message after the results of the step. Data: ``{"path",
"format", "width", "height", "bytes", "sent": {"media_type", "width", "height", "bytes"}}``; sizes in
pixels and bytes.
"""

from __future__ import annotations

import asyncio
import base64
import io
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from ...engine.chat import ImagePart
from ...sandbox.base.errors import ToolError
from ..repo.files import read_regular
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import printable, workspace_path
from .read import similar_names
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


class ViewImageArguments(ToolArguments):
    path: str = Field(description="A PNG, JPEG, GIF or WebP file, from the repository's top.")


class ViewImageTool:
    name: ClassVar[str] = "view_image"
    arguments: ClassVar[type[ToolArguments]] = ViewImageArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: ViewImageArguments) -> ToolResult:
        """Raises ToolError for what is no picture, is too large or damaged, or when the model cannot see."""
        if context.sees_images() is False:
            raise ToolError(
                "this model takes no images", hint="go by the file's name, size and how the code uses it"
            )
        path = workspace_path(context, arguments.path)
        try:
            data = await asyncio.to_thread(read_regular, context.workspace.root, path, MAX_FILE_BYTES)
        except FileNotFoundError as error:
            hint = similar_names(context.workspace.root / path)
            raise ToolError(f"{printable(path)} does not exist", hint=hint) from error
        except OSError as error:
            raise ToolError(f"{printable(path)} cannot be read: {error.strerror or error}") from error
        if data is None:
            raise ToolError(f"{printable(path)} is over {MAX_FILE_BYTES >> 20} MiB, too large to show")
        return await asyncio.to_thread(_shown, printable(path), data)


def _shown(path: str, data: bytes) -> ToolResult:
    image, kind, size, frames = _decode(path, data)
    media_type, sent = _encode(image, kind)
    facts: dict[str, Any] = {
        "path": path,
        "format": kind,
        "width": size[0],
        "height": size[1],
        "bytes": len(data),
        "sent": {"media_type": media_type, "width": image.width, "height": image.height, "bytes": len(sent)},
    }
    text = f"{path}: {kind}, {size[0]} x {size[1]} pixels, {len(data)} bytes"
    if (image.width, image.height) != size:
        text += f"; shown at {image.width} x {image.height}"
    if frames > 1:
        text += f"; the first of {frames} frames"
    part = ImagePart(media_type=media_type, data_base64=base64.b64encode(sent).decode("ascii"))
    return ToolResult(f"{text}. The picture follows in the next message.", facts, images=(part,))


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
                    hint="make a smaller copy with a program of the project and view that",
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

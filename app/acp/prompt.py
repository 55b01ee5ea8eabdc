"""A prompt of the protocol (text, images, links, embedded files) as the text and the images of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...engine.chat import ImagePart
from ...sandbox.base.errors import ToolError, UsageError
from ..agent.prompts import delimited
from ..talk.images import MAX_IMAGES

ONLY_IMAGES = "(an image without words)"


def prompt_text(blocks: Sequence[Any], root: Path) -> str:
    """Links to files of the repository become ``@path``; embedded files stand below the text, as data.

    Args:
        blocks: content blocks of the library; those of kinds that were not offered are named, not dropped.
    """
    said: list[str] = []
    images = 0
    attached: list[str] = []
    for block in blocks:
        if block.type == "text":
            said.append(block.text)
        elif block.type == "resource_link":
            said.append(_mention(block.uri, root))
        elif block.type == "resource" and getattr(block.resource, "text", None) is not None:
            said.append(_mention(block.resource.uri, root))
            attached.append(
                f"{_mention(block.resource.uri, root)}:\n{delimited(block.resource.text, 'FILE')}"
            )
        elif block.type == "image":
            images += 1
        else:
            said.append(f"[{block.type} that cannot be read here]")
    text = "\n\n".join(["".join(said).strip(), *attached]).strip()
    return text or (ONLY_IMAGES if images else "")


def prompt_images(blocks: Sequence[Any]) -> tuple[ImagePart, ...]:
    """The images of a prompt, as models are shown them; blocking.

    Raises:
        UsageError: one is no PNG, JPEG, GIF or WebP, damaged or too large, or there are too many.
    """
    from ..tools.pictures import picture_of_base64

    found = [block for block in blocks if block.type == "image"]
    if len(found) > MAX_IMAGES:
        raise UsageError(f"{len(found)} images are too many: {MAX_IMAGES} go with one prompt")
    try:
        return tuple(
            picture_of_base64(f"image {number}", block.data).part for number, block in enumerate(found, 1)
        )
    except ToolError as error:
        raise UsageError(error.message) from error


def _mention(uri: str, root: Path) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    return f"@{path.relative_to(root).as_posix()}" if path.is_relative_to(root) else str(path)

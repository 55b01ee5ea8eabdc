"""Images that the person shows: files named on the command line, or as ``@path.png`` in a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...sandbox.base.errors import ToolError, UsageError

if TYPE_CHECKING:
    # The prompt needs the names only, and these cost more than the first paint.
    from ...engine.chat import ImagePart
    from ..tools.pictures import Picture

MAX_IMAGES = 10
"""With one prompt; most endpoints take no more."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""What image files are called."""
_MENTION = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s"]+))')


def is_image_name(name: str) -> bool:
    """By its end only; what a file is, its content says."""
    return name.lower().endswith(SUFFIXES)


def mentioned(text: str, folder: Path) -> tuple[list[Path], list[str]]:
    """Image files that a text names behind ``@``, each once, and such names that are no file here."""
    found: list[Path] = []
    missing: list[str] = []
    for match in _MENTION.finditer(text):
        name = match[1] or match[2].rstrip(".,;:!?)")
        if not is_image_name(name):
            continue
        try:
            path = folder / Path(name).expanduser()
            there = path.exists()
        except (OSError, RuntimeError, ValueError):
            there, path = False, folder
        if not there:
            missing.append(name)
        elif path not in found:
            found.append(path)
    return found, missing


def mention_of(path: Path, folder: Path) -> str:
    """``@path`` that ``mentioned`` finds again, seen from ``folder``; empty where that cannot be."""
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
    text = f'@"{name}"' if re.search(r"\s", name) else f"@{name}"
    return text if mentioned(text, folder)[0] == [path] else ""


def load_pictures(paths: Sequence[Path]) -> list[Picture]:
    """Reads and decodes; blocking.

    Raises:
        UsageError: one of them cannot be read or is no image, or there are more than MAX_IMAGES.
    """
    from ..tools.pictures import picture_of_file

    if len(paths) > MAX_IMAGES:
        raise UsageError(f"{len(paths)} images are too many", hint=f"{MAX_IMAGES} go with one prompt")
    try:
        return [picture_of_file(path) for path in paths]
    except ToolError as error:
        raise UsageError(f"image {error.message}", hint=error.hint) from error


def load_images(paths: Sequence[str | Path]) -> tuple[ImagePart, ...]:
    """As load_pictures, only what is sent."""
    return tuple(picture.part for picture in load_pictures([Path(path).expanduser() for path in paths]))

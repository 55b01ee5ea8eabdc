"""Large pastes and images in a prompt: kept beside it, shown in it as one chip that edits as one letter.

A chip is ``⟦paste 1: 10000 lines⟧`` or ``⟦image 2: shot.png, 12 KiB⟧``. Edits that touch part of
a chip are widened to all of it, so it can be deleted but never broken; what is not broken is always
found again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..talk.images import is_image_name, mention_of

CHIP_LINES = 8
CHIP_CHARACTERS = 1000
"""Pastes beyond either become a chip."""

_CHIP = re.compile(r"⟦(?:paste|image) (\d+): [^⟦⟧\n]*⟧")
_IMAGE_CHIP = re.compile(r"⟦image \d+: [^⟦⟧\n]*⟧")
_MAX_PATHS = 4096
"""Characters: a longer paste is no list of paths."""


class Pastes:
    """The texts behind the chips of one prompt."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def fitting(self, text: str, most: int = 20_000) -> str:
        """The text, or a chip for it where it is too long to be edited at ease."""
        return self.chip_for(text) if len(text) > most else text

    def chip_for(self, text: str) -> str:
        """What goes into the prompt for a paste: the text itself, or a chip where it is large."""
        lines = text.count("\n") + 1
        if lines <= CHIP_LINES and len(text) <= CHIP_CHARACTERS:
            return text
        self._texts.append(text)
        size = f"{lines} lines" if lines > CHIP_LINES else f"{len(text)} characters"
        return f"⟦paste {len(self._texts)}: {size}⟧"

    def chip_for_image(self, path: Path, folder: Path) -> str:
        """The chip of an image file, which stands for its mention; empty where a chip cannot name it."""
        shown = mention_of(path, folder)
        try:
            size = path.stat().st_size
        except OSError:
            return ""
        if not shown:
            return ""
        self._texts.append(shown)
        name = re.sub(r"[⟦⟧\x00-\x1f\x7f]", "?", path.name)
        return f"⟦image {len(self._texts)}: {name}, {_size(size)}⟧"

    def with_mentions(self, text: str) -> str:
        """The text with image chips replaced by what they mention; other pastes mention nothing."""
        return _IMAGE_CHIP.sub(lambda found: self._whole(found[0]), text)

    def text_of(self, chip: str) -> str | None:
        """The text behind a chip, or None where it is none of ours."""
        found = _CHIP.fullmatch(chip)
        number = int(found[1]) if found else 0
        return self._texts[number - 1] if 1 <= number <= len(self._texts) else None

    def expand(self, text: str) -> str:
        """The text with every chip replaced; what is inside a paste is not looked into."""
        return _CHIP.sub(lambda found: self._whole(found[0]), text)

    def spans(self, line: str) -> Iterator[tuple[int, int]]:
        """Where the chips of a line lie, in characters."""
        for found in _CHIP.finditer(line):
            if self.text_of(found[0]) is not None:
                yield found.span()

    def widen(self, line: str, column: int, *, towards_end: bool) -> int:
        """``column``, or the edge of the chip it lies inside of."""
        for start, end in self.spans(line):
            if start < column < end:
                return end if towards_end else start
        return column

    def _whole(self, chip: str) -> str:
        text = self.text_of(chip)
        return chip if text is None else text


def images_in_paste(text: str, folder: Path) -> list[Path]:
    """Image files when a paste is nothing but their paths, as terminals write what is dropped on them."""
    text = text.strip()
    if not text or len(text) > _MAX_PATHS or "\n" in text:
        return []
    try:
        candidates = [[text], shlex.split(text)]
    except ValueError:
        candidates = [[text]]
    for names in candidates:
        paths = [_file(name, folder) for name in names]
        found = [path for path in paths if path is not None]
        if found and len(found) == len(paths):
            return found
    return []


def _file(name: str, folder: Path) -> Path | None:
    parts = urlsplit(name) if name.startswith("file://") else None
    path = unquote(parts.path) if parts is not None else name
    if not is_image_name(path):
        return None
    try:
        whole = folder / Path(path).expanduser()
        return whole if whole.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.3g} KiB" if count < 1024 * 1000 else f"{count / (1 << 20):.3g} MiB"

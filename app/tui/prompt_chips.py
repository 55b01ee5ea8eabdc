"""Large pastes in a prompt: kept whole beside it, shown in it as one chip that edits as one letter.

A chip is ``⟦paste 1: 10000 lines⟧``. Edits that touch part of a chip are widened to all of it,
so it can be deleted but never broken; what is not broken is always found again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

CHIP_LINES = 8
CHIP_CHARACTERS = 1000
"""Pastes beyond either become a chip."""

_CHIP = re.compile(r"⟦paste (\d+): [^⟦⟧\n]*⟧")


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

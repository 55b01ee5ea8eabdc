"""Stop texts in an answer that comes in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopFilter:
    """Gives out text as soon as it is certain that no stop text begins in it."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None
        """The stop text that ended the answer."""

    def feed(self, text: str) -> str:
        """What may be shown now; nothing once a stop text was found."""
        if self.found is not None:
            return ""
        if not self._stops:
            return text
        self._held += text
        places = [(place, -len(stop), stop) for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            place, _, self.found = min(places)
            shown, self._held = self._held[:place], ""
            return shown
        keep = max(_overlap(self._held, stop) for stop in self._stops)
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown

    def rest(self) -> str:
        """What was held back, at the end of the answer."""
        shown, self._held = self._held, ""
        return shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that a stop text begins with."""
    return next(
        (size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0
    )

"""Text from tokens as they come: characters split over tokens, stop strings split over texts."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

from .request import Choice, Seen


class Decoder:
    """UTF-8 from pieces that may end inside a character; what is no UTF-8 becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """The characters that are complete now."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class StopStrings:
    """Ends a text before the first of several strings; what may be the start of one is held back."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """(text that is certain, the stop string that ended it or None)."""
        if not self._stops:
            return text, None
        whole = self._held + text
        found = [(at, -len(stop), stop) for stop in self._stops if (at := whole.find(stop)) >= 0]
        if found:
            at, _, stop = min(found)
            self._held = ""
            return whole[:at], stop
        keep = max(_overlap(whole, stop) for stop in self._stops)
        self._held = whole[len(whole) - keep :]
        return whole[: len(whole) - keep], None

    def finish(self) -> str:
        """What was held back and turned out to be text."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop``."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0


class PlainText:
    """A watcher for text without channels: events are pieces of text, stop strings end it."""

    def __init__(self, piece: Callable[[int], bytes], stops: Iterable[str] = ()) -> None:
        """``piece`` gives a token's bytes (empty for control tokens)."""
        self._piece = piece
        self._decoder = Decoder()
        self._stops = StopStrings(stops)

    def see(self, choice: Choice) -> Seen:
        text, stop = self._stops.feed(self._decoder.feed(self._piece(choice.token)))
        return Seen((text,) if text else (), stop)

    def finish(self) -> str:
        """The rest of a text that no stop string ended."""
        text, stop = self._stops.feed(self._decoder.finish())
        return text if stop is not None else text + self._stops.finish()

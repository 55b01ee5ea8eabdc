"""Guides that need no grammar: the hard end of thinking, and several guides as one."""

from __future__ import annotations

from collections.abc import Sequence

from .request import Array, Guide


class Marker:
    """Looks for a run of token ids in a stream."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = tuple(ids)
        self._recent: list[int] = []

    def see(self, token: int) -> bool:
        """Whether the run is complete with this token."""
        self._recent = [*self._recent, token][-len(self._ids) :]
        return tuple(self._recent) == self._ids

    @property
    def begun(self) -> int:
        """How many ids of the run the stream ends with, not the whole of it."""
        for size in range(min(len(self._recent), len(self._ids) - 1), 0, -1):
            if tuple(self._recent[-size:]) == self._ids[:size]:
                return size
        return 0


class ThinkingBudget:
    """Closes the thinking channel after a number of tokens, however much the model would like to go on.

    The answer starts inside the channel. Tokens of a closing marker that the model has begun by itself
    count while it is incomplete, so at most ``most`` tokens come before the channel is closed for it.
    """

    def __init__(self, most: int, end: Sequence[int], after: Sequence[int] = ()) -> None:
        """``end``: the ids that close the channel; ``after``: what is written behind them when it was cut."""
        self._most = most
        self._marker = Marker(end)
        self._closing = (*end, *after)
        self._end = len(end)
        self._pending: list[int] = []
        self.spent = 0
        """Tokens in the channel; those of a closing marker no longer count once it is complete."""
        self.cut = False
        """Whether the budget closed it, and not the model."""
        self.open = True
        self._check()

    def forced(self) -> Sequence[int]:
        return self._pending

    def allowed(self) -> Array | None:
        return None

    def accept(self, token: int) -> None:
        if self._pending:
            self._pending = self._pending[1:] if token == self._pending[0] else []
            self._marker.see(token)
            return
        if not self.open:
            return
        self.spent += 1
        if self._marker.see(token):
            self.open = False
            self.spent -= self._end
        else:
            self._check()

    def _check(self) -> None:
        if self.spent >= self._most:
            self.open, self.cut = False, True
            begun = self._marker.begun
            self.spent -= begun
            self._pending = list(self._closing[begun:])


class Both:
    """Several guides at once: the first that forces something does, and all must allow a token."""

    def __init__(self, *guides: Guide) -> None:
        self._guides = guides

    def forced(self) -> Sequence[int]:
        for guide in self._guides:
            if forced := guide.forced():
                return forced
        return ()

    def allowed(self) -> Array | None:
        masks = [mask for guide in self._guides if (mask := guide.allowed()) is not None]
        if not masks:
            return None
        allowed = masks[0]
        for mask in masks[1:]:
            allowed = allowed & mask
        return allowed

    def accept(self, token: int) -> None:
        for guide in self._guides:
            guide.accept(token)

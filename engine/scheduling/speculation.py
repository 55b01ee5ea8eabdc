"""Guessing ahead by looking the last tokens up in the text itself: agents repeat what they have read."""

from __future__ import annotations

import numpy as np

from .request import Array

_LONGEST, _SHORTEST = 4, 3
"""Tokens at the end that must have occurred before."""
_WINDOW = 1 << 16
"""Tokens that are searched: the latest."""
_PATIENCE = 3
_REST = 24


class Lookup:
    """Proposes tokens for one answer, fewer when its guesses fail."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = most
        self._failures = 0
        self._rest = 0

    def propose(self, tokens: Array) -> Array:
        """i64[m], 0 <= m <= most: what followed the last occurrence of the last tokens of ``tokens``."""
        if self._rest:
            self._rest -= 1
            return tokens[:0]
        text = tokens[-_WINDOW:]
        for size in range(_LONGEST, _SHORTEST - 1, -1):
            if text.size <= size:
                continue
            end = text[-size:]
            starts = np.flatnonzero(text[: text.size - size] == end[0])
            for offset in range(1, size):
                starts = starts[text[starts + offset] == end[offset]]
            if starts.size:
                first = int(starts[-1]) + size
                return text[first : first + self._size].copy()
        return text[:0].copy()

    def learn(self, proposed: int, kept: int) -> None:
        """How many of the tokens proposed came true: decides how many are proposed next."""
        if not proposed:
            return
        if kept == proposed:
            self._size, self._failures = min(self._most, self._size * 2), 0
            return
        self._size = max(1, min(self._most, kept + 1))
        self._failures = 0 if kept else self._failures + 1
        if self._failures >= _PATIENCE:
            # Every wrong guess costs computing tokens twice: leave it for a while.
            self._failures, self._rest = 0, _REST

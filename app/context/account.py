"""Counts the tokens of the next prompt: what the server reported for the last one plus what was added."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...engine.chat import Message, Usage

_IMPLAUSIBLE = 0.25
"""Reports below this share of a conservative estimate leave out cached tokens, or are made up."""
_MOST_OFF = 4.0


class TokenAccount:
    """Sizes of the messages of one view, each estimated once; exact where the server has counted."""

    def __init__(self, count: Callable[[Message], int], fixed: int) -> None:
        """``count``: estimated tokens of one message; ``fixed``: of tools and all else in every prompt."""
        self._count = count
        self._fixed = fixed
        self._sizes: list[int] = []
        self._total = 0
        self._generation = -1
        self._reported: tuple[int, int] | None = None
        self._answer: int | None = None
        self._ratio = 1.0

    def prompt(self, view: Sequence[Message], generation: int) -> int:
        """Tokens of the view with the tools. ``generation`` changes when the view was made anew."""
        self._sync(view, generation)
        if self._reported is None:
            return self._scaled(self._fixed + self._total)
        tokens, covered = self._reported
        added = self._sizes[covered:]
        if added and self._answer is not None and view[covered].role == "assistant":
            tokens, added = tokens + self._answer, added[1:]
        # What was not counted yet may be denser than what was: never less than the estimate.
        return tokens + int(sum(added) * max(self._ratio, 1.0))

    def unsure(self, view: Sequence[Message], generation: int) -> int:
        """The part of ``prompt`` that is our own estimate."""
        self._sync(view, generation)
        if self._reported is None:
            return self._scaled(self._fixed + self._total)
        return int(sum(self._sizes[self._reported[1] :]) * max(self._ratio, 1.0))

    def report(self, view: Sequence[Message], generation: int, usage: Usage | None) -> None:
        """The server counted a prompt of exactly this view (before its answer is appended to it)."""
        if usage is None or usage.input_tokens is None:
            return
        self._sync(view, generation)
        estimate = self._fixed + self._total
        tokens = max(usage.input_tokens, int(estimate * _IMPLAUSIBLE))
        self._reported, self._answer = (tokens, len(self._sizes)), usage.output_tokens
        self._ratio = min(max(tokens / max(estimate, 1), 1 / _MOST_OFF), _MOST_OFF)

    def refused(self, view: Sequence[Message], generation: int, tokens: int) -> None:
        """The server did not take this view: it has at least so many tokens by its count."""
        self._sync(view, generation)
        self._reported = None
        wanted = tokens / max(self._fixed + self._total, 1)
        self._ratio = min(max(self._ratio, wanted), 3 * _MOST_OFF)

    def of(self, messages: Sequence[Message]) -> int:
        """Tokens of other messages, with what is known of the server's way to count."""
        return self._scaled(sum(map(self._count, messages)))

    @property
    def ratio(self) -> float:
        """Tokens of the server for one of our estimate."""
        return self._ratio

    def _sync(self, view: Sequence[Message], generation: int) -> None:
        if generation != self._generation:
            self._generation, self._sizes, self._total, self._reported = generation, [], 0, None
        for message in view[len(self._sizes) :]:
            size = self._count(message)
            self._sizes.append(size)
            self._total += size

    def _scaled(self, tokens: int) -> int:
        return int(tokens * self._ratio)


_NUMBER = r"(\d[\d,]{2,10})"
_WINDOW = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:maximum (?:context|model|prompt|input) length|max_model_len|n_ctx"
        r"|context[ _-](?:length|window|size))"
        rf"(?: is| of|:| =|=| limit| \(| exceeded| to)*\s*\(?{_NUMBER}",
        rf"> {_NUMBER} (?:maximum|tokens)",
        rf"{_NUMBER}[ -]token (?:context|limit|window)",
        rf"(?:limit|maximum)(?: is| of|:)? {_NUMBER} tokens",
    )
)
_ASKED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_NUMBER} (?:tokens )?in (?:the|your) (?:messages|prompt|input)",
        rf"{_NUMBER} (?:input|prompt) tokens",
        rf"(?:prompt|input)(?: is)? too long:? \(?{_NUMBER}",
        rf"(?:requested(?: tokens)?|request|resulted in|prompt (?:has|contains|of))(?: about)? \(?{_NUMBER}",
    )
)


def window_in(message: str) -> int | None:
    """The context window that a server's refusal names, in tokens."""
    return _first(_WINDOW, message)


def asked_in(message: str) -> int | None:
    """The tokens of the prompt that it refused, where it says."""
    return _first(_ASKED, message)


def _first(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    for pattern in patterns:
        match = pattern.search(text)
        if match:
            value = int(match[1].replace(",", ""))
            if 256 <= value <= 100_000_000:
                return value
    return None

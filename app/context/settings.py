"""How much context a run may use, and when it is compacted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ...sandbox.base.errors import ConfigError

ASSUMED_WINDOW = 131_072
"""Tokens assumed where neither the model nor a refusal has told the window."""
COMPACT_AT = 0.8
_LEAST_WINDOW = 1024

WINDOW_VARIABLE = "WHIMBREL_CONTEXT_WINDOW"
SHARE_VARIABLE = "WHIMBREL_COMPACT_AT"


@dataclass(frozen=True)
class ContextSettings:
    """Settings of one conversation."""

    window: int | None = None
    """Tokens of prompt plus answer; None: what the model says."""
    compact_at: float = COMPACT_AT
    """Share of the window at which the prompt is compacted."""
    recent_share: float = 0.2
    """Of the window: finished rounds that stay word for word beside the open one."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> ContextSettings:
        """``WHIMBREL_CONTEXT_WINDOW`` (tokens) and ``WHIMBREL_COMPACT_AT`` (0.1 to 0.95), where set.

        Raises:
            ConfigError: a value that is none.
        """
        source = os.environ if environ is None else environ
        window = _number(source.get(WINDOW_VARIABLE, ""))
        share = _number(source.get(SHARE_VARIABLE, ""))
        if window is not None and not (window >= _LEAST_WINDOW and window < 1e9 and window == int(window)):
            raise ConfigError(
                f"{WINDOW_VARIABLE} is no number of tokens", hint=f"give a whole number from {_LEAST_WINDOW}"
            )
        if share is not None and not 0.1 <= share <= 0.95:
            raise ConfigError(f"{SHARE_VARIABLE} is no share of the window", hint="give 0.1 to 0.95")
        return cls(None if window is None else int(window), COMPACT_AT if share is None else share)


def answer_reserve(window: int) -> int:
    """Tokens kept free for an answer with its thinking: a quarter of the window, at most 32,768."""
    return max(256, min(window // 4, 32_768))


def _number(text: str) -> float | None:
    """None where nothing is set; NaN (which no range holds) for what is no number."""
    if not text.strip():
        return None
    try:
        return float(text.strip())
    except ValueError:
        return float("nan")

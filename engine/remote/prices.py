"""What a step cost, where the endpoint does not say it itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...sandbox.base.errors import ConfigError
from ..chat import Usage

VARIABLE = "WHIMBREL_PRICES"


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input tokens that came from a cache; None: as the others, which is never too little."""

    def complete(self, usage: Usage) -> Usage:
        """The usage with its cost; unchanged where the endpoint said it, or its counts are unknown."""
        if usage.cost_usd is not None or usage.input_tokens is None or usage.output_tokens is None:
            return usage
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        price = self.input if self.cached is None else self.cached
        cost = (
            (usage.input_tokens - cached) * self.input + cached * price + usage.output_tokens * self.output
        ) / 1e6
        return usage.model_copy(update={"cost_usd": cost})


def parse_prices(text: str) -> Prices | None:
    """``INPUT,OUTPUT`` or ``INPUT,OUTPUT,CACHED`` in dollars per million tokens; None when empty.

    Raises:
        ConfigError: anything else.
    """
    if not text.strip():
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (2, 3) or not all(math.isfinite(value) and value >= 0 for value in values):
        raise ConfigError(
            f"{VARIABLE} is not a list of prices",
            hint="write dollars per million tokens: INPUT,OUTPUT or INPUT,OUTPUT,CACHED",
        )
    return Prices(*values)

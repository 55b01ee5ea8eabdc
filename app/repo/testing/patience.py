"""How long one test may take where nobody has set a limit."""

from __future__ import annotations

_LONGEST_S = 60.0
_SHORTEST_S = 6.0


def seconds_for_one_test(whole_s: float) -> float:
    """A tenth of the whole run's time, 6 to 60 seconds: a hung test must not use up a short run."""
    return min(_LONGEST_S, max(_SHORTEST_S, whole_s / 10))

"""How much each piece of evidence counts.

A statement's suspicion is exp(sum of weight times evidence), normalised over all statements, as
in a conditional logit model. The weights were chosen with ``benchmarks/localisation.py`` on its
tuning libraries only; the figures it publishes come from other ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WEIGHTS: Mapping[str, float] = {
    # how execution goes with failure
    "ochiai": 2.0, "log_ochiai": 0.6, "relative": 0.2, "peak": 0.3, "dstar": 1.8, "cover": 1.7,
    "function_ochiai": 1.9, "within": 0.3, "branch": 0.4,
    # what the failing tests call, say and are named after
    "called": 0.1, "near": 0.3, "title": 0.3, "module": 0.3, "mentioned": 0.1, "slice": 1.2,
    "odd_constant": 0.4, "should_raise": 0.5, "stuck_loop": 0.5, "gives_none": 0.4, "gave_nothing": 2.5,
    # tracebacks
    "raised_here": 0.6, "on_trace": 0.2, "raised_in": 0.9, "guards_raise": 0.6, "feeds_raise": 0.3,
    # the statement itself
    "content": 0.8, "kind_if": 0.3, "kind_update": 0.1, "kind_call": 0.1, "kind_return": -0.1,
    "kind_loop": -0.1, "kind_assign": -0.2, "kind_raise": -0.4, "kind_definition": -0.9,
    "large_function": -0.4, "display": -4.0, "recent": 1.5, "untraced": -1.0,
}  # fmt: skip


def suspicions(evidence: Sequence[Mapping[str, float]]) -> list[float]:
    """Probability of each statement to be the fault under the model; they add up to 1."""
    logits = [sum(WEIGHTS.get(name, 0.0) * value for name, value in values.items()) for values in evidence]
    top = max(logits, default=0.0)
    powers = [math.exp(each - top) for each in logits]
    total = sum(powers) or 1.0
    return [each / total for each in powers]

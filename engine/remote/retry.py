"""The one retry policy of remote models."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .failures import Failure, RemoteError


@dataclass
class RetryPolicy:
    """Exponential back-off with jitter; an endpoint's Retry-After wins over it.

    A step gives up after ``attempts`` tries, or when waiting would take more than
    ``total_wait_s`` altogether. A cut stream was billed, so it is tried again only
    ``cuts`` times.
    """

    attempts: int = 5
    cuts: int = 2
    base_s: float = 0.5
    cap_s: float = 30.0
    total_wait_s: float = 180.0
    jitter: random.Random = field(default_factory=random.Random)

    def delay(self, error: RemoteError, failed: int, waited_s: float) -> float | None:
        """Seconds before the next try after ``failed`` failures, or None to give up."""
        allowed = 1 + self.cuts if error.failure is Failure.STREAM_CUT else self.attempts
        if not error.failure.retryable or failed >= allowed:
            return None
        delay = error.retry_after_s
        if not delay:
            # Also "at once": asking a busy server again without a pause helps nobody.
            delay = min(self.cap_s, self.base_s * 2 ** (failed - 1)) * self.jitter.uniform(0.5, 1.0)
        return delay if waited_s + delay <= self.total_wait_s else None

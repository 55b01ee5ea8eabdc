"""What is asked of the scheduler (token ids in), and what it answers (token ids out)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from ...sandbox.base.errors import ModelError

Array = np.ndarray[Any, np.dtype[Any]]
Reason = Literal["stop", "length", "cancelled"]

_MOST_BIAS = 100.0


class InvalidRequest(ModelError):
    """The request can never be served; ``parameter`` names the field at fault."""

    def __init__(self, message: str, *, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class TooLong(InvalidRequest):
    """The prompt leaves no room for a single token of answer."""

    def __init__(self, prompt: int, window: int) -> None:
        super().__init__(
            f"the prompt has {prompt} tokens and the window {window}; nothing is left for an answer",
            parameter="prompt",
        )
        self.prompt, self.window = prompt, window


class QueueFull(ModelError):
    """As many requests wait as may wait."""


class Closing(ModelError):
    """The engine takes no new requests: it drains, is closed, or has failed."""


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen from logits. The defaults choose from the model's own distribution.

    Args:
        temperature: 0 is greedy (the likeliest token, ties to the lowest id).
        top_p: keep the smallest set of likeliest tokens that holds this much probability.
        top_k: keep this many; 0 keeps all.
        min_p: keep tokens at least this likely, relative to the likeliest.
        repetition_penalty: divides positive and multiplies negative logits of tokens already in the
            prompt or the answer.
        presence_penalty, frequency_penalty: subtracted from tokens of the answer, once and per occurrence.
        logit_bias: added to single tokens, -100 ... 100.
        seed: the same seed gives the same answer; None draws one.
        logprobs: how many of the likeliest tokens are told with each token (0: only the chosen one's
            log-probability); None: none at all. They are the model's own, before all of the above.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict[int, float])
    seed: int | None = None
    logprobs: int | None = None

    def check(self, vocab_size: int) -> None:
        """Raises InvalidRequest for values that have no meaning."""
        _within("temperature", self.temperature, 0.0, math.inf)
        _within("top_p", self.top_p, 0.0, 1.0)
        _within("top_k", self.top_k, 0, math.inf)
        _within("min_p", self.min_p, 0.0, 1.0)
        _within("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _within("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)
        _within("top_logprobs", self.logprobs or 0, 0, vocab_size)
        for token, bias in self.logit_bias.items():
            if not 0 <= token < vocab_size:
                raise InvalidRequest(f"there is no token {token}", parameter="logit_bias")
            _within("logit_bias", bias, -_MOST_BIAS, _MOST_BIAS)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidRequest(f"{name} is {value}, not a number from {low} to {high}", parameter=name)


class Guide(Protocol):
    """Steers one answer: what must come next, and what may. Used by the worker thread only."""

    def forced(self) -> Sequence[int]:
        """Token ids that come next whatever the model says; empty: the model chooses."""
        ...

    def allowed(self) -> Array | None:
        """bool[vocab]: what may come next; None: anything."""
        ...

    def accept(self, token: int) -> None:
        """The token has become part of the answer."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A token, with its natural log-probability and the likeliest ones (id, logprob) where they are told."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Seen:
    """What a watcher made of a token."""

    events: Sequence[Any] = ()
    stop: str | None = None
    """A text at which the answer ends (empty: it ends, but not at a text)."""


class Watcher(Protocol):
    """Reads an answer as it is written (decodes, parses, looks for stop texts) and may end it."""

    def see(self, choice: Choice) -> Seen: ...


@dataclass(frozen=True)
class Span:
    """Rows that stand in for the embedding table from a position of the prompt on (an image).

    Args:
        first: position of the first row.
        rows: f32[n, hidden].
        digest: what the rows were made from, so that equal images are one for the prefix cache.
    """

    first: int
    rows: Array
    digest: bytes


@dataclass(frozen=True)
class Request:
    """One question in token ids.

    Args:
        prompt: token ids, at least one.
        max_tokens: of answer at most; None: what the window leaves.
        stop_ids: tokens that end the answer (and are its last).
        guide, watcher: see there; each belongs to this request alone.
        owner: whose request it is: waiting owners are served in turn.
        speculate: tokens to guess ahead from the text itself; 0: none.
        reuse: whether states of earlier requests may be used and kept for later ones.
    """

    prompt: Sequence[int] | Array
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    stop_ids: frozenset[int] = frozenset()
    guide: Guide | None = None
    watcher: Watcher | None = None
    owner: str = ""
    spans: Sequence[Span] = ()
    speculate: int = 0
    reuse: bool = True

    def check(self, vocab_size: int, window: int) -> None:
        """Raises InvalidRequest (TooLong) for what can never run."""
        ids = np.asarray(self.prompt)
        if ids.ndim != 1 or ids.size == 0 or not np.issubdtype(ids.dtype, np.integer):
            raise InvalidRequest("a prompt is at least one token id", parameter="prompt")
        if int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
            raise InvalidRequest(f"token ids go from 0 to {vocab_size - 1}", parameter="prompt")
        if ids.size >= window:
            raise TooLong(int(ids.size), window)
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidRequest("max_tokens is at least 1", parameter="max_tokens")
        if not 0 <= self.speculate <= 64:
            raise InvalidRequest("from 0 to 64 tokens are guessed ahead", parameter="speculate")
        for span in self.spans:
            if span.rows.ndim != 2 or span.first < 0 or span.first + len(span.rows) > ids.size:
                raise InvalidRequest("an image lies outside the prompt", parameter="prompt")
        self.sampling.check(vocab_size)


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer.

    Args:
        forced: written by a guide, not chosen.
        logprob: natural log-probability under the model, where asked for.
        top: (token id, logprob) of the likeliest, descending.
        events: what the watcher made of it.
    """

    id: int
    forced: bool = False
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    events: Sequence[Any] = ()


@dataclass(frozen=True)
class Ended:
    """The last item of every answer that did not fail."""

    reason: Reason
    prompt_tokens: int
    cached_tokens: int
    """Tokens of the prompt that were not computed for this request."""
    output_tokens: int
    stop_text: str | None = None
    drafted: int = 0
    """Tokens guessed ahead, and how many of them came true."""
    drafts_kept: int = 0
    preemptions: int = 0


Item = Token | Ended

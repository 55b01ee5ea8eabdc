"""How an answer of llama.cpp is to be made, and what is told of it when it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Reason = Literal["stop", "length", "aborted"]


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; the defaults are those of every answer that asks for nothing else."""

    temperature: float = 0.7
    """0 = always the likeliest."""
    top_k: int = 40
    """0 = all."""
    top_p: float = 0.95
    min_p: float = 0.05
    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    """Penalties of what the answer holds already; the prompt does not count."""


@dataclass(frozen=True)
class Wanted:
    """How an answer is to be made."""

    seed: int
    most_tokens: int
    """Of thinking and answer together."""
    answer_tokens: int
    """Of the answer alone."""
    thinking_tokens: int
    """After so many tokens of thinking the block is closed for the model."""
    grammar: Callable[[bool], str] | None = None
    """GBNF for calls, given whether the first tag is written; None = no tools."""
    call_first: bool = False
    """Whether the answer must be a call and nothing else."""
    form: str = ""
    """GBNF for the text of the answer; empty = free. Excludes ``grammar``."""
    top_logprobs: int | None = None
    """Log-probabilities wanted: None = none, else of the token chosen and of so many likeliest."""
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True)
class Answer:
    """How an answer ended, and its size in tokens."""

    reason: Reason
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    thinking_tokens: int
    thinking_cut: bool


@dataclass(frozen=True)
class Chance:
    """Bytes of a token and its natural log-probability."""

    data: bytes
    logprob: float

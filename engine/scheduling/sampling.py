"""From logits to a token: penalties, filters, a seeded draw, log-probabilities."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from ...sandbox.base.errors import ModelError
from .request import Array, Choice, Sampling

_LEAST = -9999.0
_GREEDY = 1e-5
"""Temperatures below are greedy: scores divided by less leave one token anyway."""
_CUTS = (1e-2, 1e-4, 1e-6)
"""Chances, relative to the likeliest token, above which tokens are sorted: few, with most of the mass."""


class NoChoice(ModelError):
    """No token can be chosen: the model gave no numbers, or nothing is allowed."""


class Sampler:
    """Chooses the tokens of one answer. One uniform number is drawn per chosen token, so equal seeds give
    equal answers whatever else runs, and whether or not tokens were guessed ahead."""

    def __init__(self, sampling: Sampling, prompt: Array, vocab_size: int) -> None:
        self._s = sampling
        self._vocab = vocab_size
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed & (1 << 64) - 1
        self._random = np.random.Generator(np.random.Philox(key=seed))
        self._counts: Array | None = None
        self._seen: Array | None = None
        if sampling.presence_penalty or sampling.frequency_penalty:
            self._counts = np.zeros(vocab_size, np.int32)
        if sampling.repetition_penalty != 1.0:
            self._seen = np.zeros(vocab_size, np.bool_)
            self._seen[prompt] = True
        self._bias_ids = np.fromiter(sampling.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(sampling.logit_bias.values(), np.float32)
        self._plain = self._counts is None and self._seen is None and not self._bias_ids.size

    def saw(self, token: int) -> None:
        """The token became part of the answer (chosen or forced)."""
        if self._counts is not None:
            self._counts[token] += 1
        if self._seen is not None:
            self._seen[token] = True

    def pick(self, logits: Array, allowed: Array | None = None) -> Choice:
        """Chooses.

        Args:
            logits: f32[vocab], left as it is.
            allowed: bool[vocab] or None.

        Raises:
            NoChoice: a NaN among the logits, or nothing allowed has a chance.
        """
        if np.isnan(logits.max()):
            raise NoChoice("the model gave logits that are no numbers (NaN)")
        scores = self._adjusted(logits, allowed)
        best = int(np.argmax(scores))
        if scores[best] == -np.inf:
            raise NoChoice("no token may come next: the constraints leave none")
        token = best if self._s.temperature < _GREEDY else self._draw(scores, float(scores[best]))
        return self.told(logits, token)

    def told(self, logits: Array, token: int) -> Choice:
        """The token with the log-probabilities that were asked for (-9999 at least: JSON has no infinity).

        Raises:
            NoChoice: they are no numbers.
        """
        if self._s.logprobs is None:
            return Choice(token)
        chances = np.maximum(log_softmax(logits), _LEAST)
        if np.isnan(chances[token]):
            raise NoChoice("the model gave logits that are no numbers (NaN)")
        ids = top_ids(chances, self._s.logprobs)
        return Choice(token, float(chances[token]), tuple((int(i), float(chances[i])) for i in ids))

    def _adjusted(self, logits: Array, allowed: Array | None) -> Array:
        s = self._s
        if self._plain and allowed is None:
            return logits
        scores = np.array(logits, np.float32)
        if self._seen is not None:
            ids = np.flatnonzero(self._seen)
            old = scores[ids]
            scores[ids] = np.where(old > 0, old / s.repetition_penalty, old * s.repetition_penalty)
        if self._counts is not None:
            ids = np.flatnonzero(self._counts)
            scores[ids] -= s.frequency_penalty * self._counts[ids] + s.presence_penalty
        if self._bias_ids.size:
            scores[self._bias_ids] += self._bias
        if allowed is not None:
            scores[~allowed] = -np.inf
        return scores

    def _draw(self, scores: Array, best: float) -> int:
        s = self._s
        if best == np.inf:
            scores = np.where(scores == np.inf, np.float32(0), np.float32(-np.inf))
            best = 0.0
        with np.errstate(under="ignore", over="ignore"):  # beyond the range is as good as no chance
            chances = np.exp((scores - np.float32(best)) / np.float32(s.temperature))
        ids: Array | None = None
        if 0 < s.top_k < self._vocab:
            ids = top_ids(chances, s.top_k)
        if s.top_p < 1.0:
            ids = _nucleus(chances, s.top_p, ids)
        kept = chances if ids is None else chances[ids]
        if s.min_p > 0.0:
            kept = np.where(kept >= np.float32(s.min_p), kept, np.float32(0))  # the likeliest has exp(0) = 1
        sums = np.cumsum(kept, dtype=np.float64)
        place = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        place = min(place, int(np.flatnonzero(kept)[-1]))  # rounding at the very end of the range
        return place if ids is None else int(ids[place])


def _nucleus(chances: Array, top_p: float, ids: Array | None) -> Array:
    """Ids of the smallest set of likeliest tokens that holds ``top_p`` of the mass, descending."""
    if ids is None:
        total = float(chances.sum(dtype=np.float64))
        for cut in _CUTS:
            ids = np.flatnonzero(chances > np.float32(cut))
            if float(chances[ids].sum(dtype=np.float64)) >= top_p * total:
                break
        else:
            ids = np.arange(chances.size)
        ids = ids[np.argsort(-chances[ids], kind="stable")]
    else:
        total = float(chances[ids].sum(dtype=np.float64))
    kept = chances[ids].astype(np.float64)
    before = np.cumsum(kept) - kept
    return ids[: max(1, int(np.count_nonzero(before < top_p * total)))]


def top_ids(values: Array, count: int) -> Array:
    """Indices of the largest ``count`` values, descending; ties go to the lowest index."""
    if count <= 0:
        return np.zeros(0, np.int64)
    if count >= values.size:
        return np.argsort(-values, kind="stable")
    border = np.partition(values, values.size - count)[values.size - count]
    above = np.flatnonzero(values > border)
    level = np.flatnonzero(values == border)[: count - above.size]
    ids = np.sort(np.concatenate([above, level]))
    return ids[np.argsort(-values[ids], kind="stable")]


def log_softmax(logits: Array) -> Array:
    """float64[vocab] natural log-probabilities; infinite logits share all of the mass."""
    wide: np.ndarray[Any, np.dtype[np.float64]] = logits.astype(np.float64)
    best = wide.max()
    if best == np.inf:
        wide = np.where(wide == np.inf, 0.0, -np.inf)
        best = 0.0
    shifted = wide - best
    return shifted - np.log(np.exp(shifted).sum())

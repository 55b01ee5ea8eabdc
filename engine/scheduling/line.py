"""One request on its way through the scheduler: its tokens, its state in the model, its sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..kimi.protocol import PAGE_TOKENS, SequenceState
from .prefix import Fingerprint
from .request import Array, Choice, Ended, Item, Reason, Request, Seen, Token
from .sampling import Sampler
from .speculation import Lookup

Deliver = Callable[[Item | BaseException], None]


def pages_for(tokens: int) -> int:
    return -(-tokens // PAGE_TOKENS)


class Line:
    """Tokens are the truth; ``state`` holds a beginning of them, and can be thrown away and made again."""

    def __init__(
        self, request: Request, number: int, deliver: Deliver, *, vocab: int, window: int, now: float
    ) -> None:
        prompt = np.ascontiguousarray(request.prompt, np.int64)
        self.request = request
        self.number = number
        """Place in the order of arrival."""
        self.deliver = deliver
        self.prompt_tokens = prompt.size
        self.most = window - prompt.size if request.max_tokens is None else request.max_tokens
        self.most = min(self.most, window - prompt.size)
        self._buffer = np.empty(prompt.size + min(self.most, 1024), np.int64)
        self._buffer[: prompt.size] = prompt
        self.length = prompt.size
        self.state: SequenceState | None = None
        self.prints = Fingerprint(request.spans)
        self.sampler = Sampler(request.sampling, prompt, vocab)
        self.lookup = Lookup(request.speculate) if request.speculate else None
        self.ready: Array | None = None
        """Logits of the next token, where the cache had them."""
        self.suspect = 0
        """A step that took it up to here has failed: until it is beyond, it runs by itself."""
        self.cached: int | None = None
        self.ended: Reason | None = None
        self.stop_text: str | None = None
        self.cancelled = False
        self.drafted = self.drafts_kept = self.preemptions = 0
        self.arrived = now
        self.told: float | None = None
        """When the last token was given out."""

    @property
    def tokens(self) -> Array:
        """i64[length]: prompt and answer so far (a view)."""
        return self._buffer[: self.length]

    @property
    def computed(self) -> int:
        """Tokens the state holds."""
        return 0 if self.state is None else self.state.length

    @property
    def pending(self) -> int:
        """Tokens it does not hold yet."""
        return self.length - self.computed

    @property
    def output_tokens(self) -> int:
        return self.length - self.prompt_tokens

    def release(self) -> None:
        """Gives up the state; the tokens stay."""
        state, self.state = self.state, None
        self.ready = None
        if state is not None:
            state.close()

    def embeddings(self, first: int, count: int) -> Array | None:
        """f32[count, hidden] with rows of NaN where the embedding table holds; None without images there."""
        rows: Array | None = None
        for span in self.request.spans:
            begin, end = max(first, span.first), min(first + count, span.first + len(span.rows))
            if begin >= end:
                continue
            if rows is None:
                rows = np.full((count, span.rows.shape[1]), np.nan, np.float32)
            rows[begin - first : end - first] = span.rows[begin - span.first : end - span.first]
        return rows

    def draft(self, room: int) -> Array:
        """Tokens guessed ahead, never more than could still be given out."""
        if self.lookup is None or self.ended is not None:
            return self._buffer[:0]
        return self.lookup.propose(self.tokens)[: max(0, min(room, self.most - self.output_tokens - 1))]

    def choose(self, rows: Array, draft: Array, emit: Callable[[Token], None]) -> int:
        """Chooses the next tokens.

        Args:
            rows: f32[1 + len(draft), vocab]: logits after the last token and after each guess.
            draft: i64[m] the guesses whose rows these are.

        Returns:
            how many of the guesses came true (the state is good for those).
        """
        told = self.request.sampling.logprobs is not None
        kept = 0
        while self.ended is None:
            token = self._next(rows[kept], told, emit)
            if kept == draft.size or int(draft[kept]) != token:
                break
            kept += 1
        guide = self.request.guide
        # What is forced needs no logits, unless its log-probability is to be told.
        while not told and guide is not None and self.ended is None and (forced := guide.forced()):
            self._add(Choice(int(forced[0])), True, emit)
        return kept

    def end(self, reason: Reason) -> Ended:
        """The last item of the answer."""
        return Ended(
            reason=reason,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=min(self.cached or 0, self.prompt_tokens),
            output_tokens=self.output_tokens,
            stop_text=self.stop_text,
            drafted=self.drafted,
            drafts_kept=self.drafts_kept,
            preemptions=self.preemptions,
        )

    def _next(self, row: Array, told: bool, emit: Callable[[Token], None]) -> int:
        guide = self.request.guide
        forced: Sequence[int] = () if guide is None else guide.forced()
        if forced:
            token = int(forced[0])
            choice = self.sampler.told(row, token) if told else Choice(token)
        else:
            choice = self.sampler.pick(row, None if guide is None else guide.allowed())
        self._add(choice, bool(forced), emit)
        return choice.token

    def _add(self, choice: Choice, forced: bool, emit: Callable[[Token], None]) -> None:
        token, request = choice.token, self.request
        if self.length == self._buffer.size:
            self._buffer = np.concatenate([self._buffer, np.empty(self._buffer.size, np.int64)])
        self._buffer[self.length] = token
        self.length += 1
        self.sampler.saw(token)
        if request.guide is not None:
            request.guide.accept(token)
        seen = Seen() if request.watcher is None else request.watcher.see(choice)
        emit(Token(token, forced, choice.logprob, choice.top, seen.events))
        if seen.stop is not None:
            self.stop_text, self.ended = seen.stop, "stop"
        elif token in request.stop_ids:
            self.ended = "stop"
        elif self.output_tokens >= self.most:
            self.ended = "length"

"""Continuous batching: which tokens of which requests go through the model next, and what comes of them.

One step takes in tokens of many requests: one token (and guesses) of each that is being answered, and
pieces of the prompts of those that are not yet. Memory decides who runs; who has to make room is computed
again later. Everything here belongs to one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ...sandbox.base.errors import ModelError
from ..kimi.protocol import PAGE_TOKENS, Chunk, PoolExhausted, Runner, Snapshot
from .fair import FairQueue
from .line import Deliver, Line, pages_for
from .metrics import Metrics
from .prefix import Kept, PrefixCache
from .request import Array, Item, QueueFull, Request, Token


@dataclass(frozen=True)
class Limits:
    """How much at once.

    Args:
        batch: requests that run at the same time.
        step_tokens: tokens of one step, prompts and answers together.
        waiting: requests that may wait.
        prefix_bytes: of states kept for later requests; 0: none are.
        snapshot_every: tokens of a long prompt after which a state is kept, a multiple of 64.
    """

    batch: int = 32
    step_tokens: int = 2048
    waiting: int = 1024
    prefix_bytes: int = 1 << 30
    snapshot_every: int = 8192

    def __post_init__(self) -> None:
        if self.batch < 1 or self.step_tokens < self.batch or self.snapshot_every % PAGE_TOKENS:
            raise ValueError("a step holds a token of each request, snapshots lie at page borders")


@dataclass
class _Part:
    """One request's share of a step."""

    line: Line
    count: int
    """Tokens of its text."""
    draft: Array
    before: Snapshot | None = None
    """Where to go back to when guesses fail."""
    reached: int = 0
    """Tokens of its text that the state holds after the step."""

    @property
    def size(self) -> int:
        return self.count + self.draft.size

    @property
    def complete(self) -> bool:
        return self.count == self.line.pending


class Scheduler:
    """Owns the runner and every state in it."""

    def __init__(
        self, runner: Runner, limits: Limits, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runner = runner
        self._limits = limits
        self._clock = clock
        self.metrics = metrics
        self.cache = PrefixCache(limits.prefix_bytes)
        self._waiting = FairQueue()
        self._running: list[Line] = []
        self._arrivals = 0
        # A page for the copy of a shared one, one for the next token: alone, a request of this size fits.
        self.window = min(runner.max_context, max(1, runner.pages_total - 2) * PAGE_TOKENS)
        self._outbox: list[tuple[Line, Item | BaseException]] = []
        self._flush()

    @property
    def busy(self) -> bool:
        return bool(self._running) or bool(self._waiting)

    def add(self, request: Request, deliver: Deliver) -> Line:
        """Queues a checked request; ``deliver`` gets its tokens, and `Ended` or an exception at the end.

        Raises:
            QueueFull: too many wait.
        """
        if len(self._waiting) >= self._limits.waiting:
            raise QueueFull(f"{len(self._waiting)} requests wait already")
        line = Line(
            request, self._arrivals, deliver,
            vocab=self._runner.vocab_size, window=self.window, now=self._clock(),
        )  # fmt: skip
        self._arrivals += 1
        self._waiting.add(line)
        self.metrics.requests += 1
        return line

    def step(self) -> bool:
        """Runs one step; False: there is nothing to do."""
        self._drop_cancelled()
        self._admit()
        if not self._running:
            self._flush()
            return False
        begun = self._clock()
        parts = [_Part(line, 0, line.tokens[:0]) for line in self._running if line.ready is not None]
        if parts:
            for part in parts:
                row, part.line.ready = part.line.ready, None
                assert row is not None
                self._take(part, row[None, :])
        else:
            self._forward()
        self.metrics.step_time.observe(self._clock() - begun)
        self._flush()
        return True

    def cancel(self, line: Line) -> None:
        """Ends a request at the next step; harmless when it has ended."""
        line.cancelled = True

    def fail_all(self, error: BaseException) -> None:
        """Ends everything."""
        for line in [*self._running, *self._waiting]:
            self._fail(line, error)
        self.cache.clear()
        self._flush()

    # ------------------------------------------------------------ who runs

    def _drop_cancelled(self) -> None:
        for line in [line for line in (*self._running, *self._waiting) if line.cancelled]:
            self._leave(line, line.end("cancelled"), "cancelled")

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._limits.batch:
            line = self._waiting.first()
            kept = self._beginning(line)
            held = 0 if kept is None else kept.length // PAGE_TOKENS
            # Those that run will need what their texts lack, and each soon a page more.
            promised = sum(
                max(0, pages_for(other.length) - (other.state.pages if other.state else 0)) + 1
                for other in self._running
            )
            needed = pages_for(line.length) - held + 1 + promised
            while needed > self._runner.pages_free and self.cache.drop_oldest(but=kept):
                pass
            if needed > self._runner.pages_free and self._running:
                return
            self._waiting.remove(line)
            self._running.append(line)
            if self._start(line, kept) and line.cached is None:
                line.cached = line.computed
                self._count_admission(line)

    def _beginning(self, line: Line) -> Kept | None:
        return self.cache.longest(line.tokens, line.prints) if line.request.reuse else None

    def _start(self, line: Line, kept: Kept | None) -> bool:
        """Gives a request a state, as far along as a kept one is; False: it failed."""
        try:
            line.state = self._runner.new() if kept is None else self._runner.restore(kept.snapshot)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this request
            self._fail(line, error)
            return False
        line.ready = kept.logits if kept is not None and kept.length == line.length else None
        return True

    def _count_admission(self, line: Line) -> None:
        figures = self.metrics
        figures.queue_time.observe(self._clock() - line.arrived)
        figures.prompt_tokens += line.prompt_tokens
        figures.cached_tokens += line.cached or 0
        figures.prefix_lookups += line.request.reuse
        figures.prefix_hits += bool(line.cached)

    def _preempt(self, but: Line) -> bool:
        """The latest to arrive (other than ``but``) gives up its state and waits; False: there is none."""
        others = [line for line in self._running if line is not but]
        if not others:
            return False
        line = max(others, key=lambda each: each.number)
        self._running.remove(line)
        line.release()
        line.preemptions += 1
        self.metrics.preemptions += 1
        self._waiting.add(line, again=True)
        return True

    # ------------------------------------------------------------ what goes through the model

    def _plan(self, *, drafts: bool) -> list[_Part]:
        alone = next((line for line in self._running if line.computed < line.suspect), None)
        lines = self._running if alone is None else [alone]
        budget = self._limits.step_tokens
        # Few missing tokens (a new one, guesses that were wrong) come before prompts: nobody's answer stalls.
        short = [line for line in lines if line.pending <= PAGE_TOKENS]
        long = sorted((line for line in lines if line.pending > PAGE_TOKENS), key=lambda each: each.pending)
        parts: list[_Part] = []
        for line in short:
            count = min(line.pending, max(1, budget))
            parts.append(_Part(line, count, line.tokens[:0]))
            budget -= count
        for place, line in enumerate(long):
            count = self._piece(line, budget // (len(long) - place))
            if count > 0:
                parts.append(_Part(line, count, line.tokens[:0]))
                budget -= count
        for part in parts:
            if drafts and part.complete and budget > 0 and part.line.output_tokens:
                part.draft = part.line.draft(budget)
                budget -= part.draft.size
        return parts

    def _piece(self, line: Line, share: int) -> int:
        """Tokens of a long text for this step: whole pages, and a border where a state is to be kept."""
        done, every = line.computed, self._limits.snapshot_every
        count = min(line.pending, share)
        whole = (done + count) // PAGE_TOKENS * PAGE_TOKENS - done
        if whole > 0 and count < line.pending:
            count = whole
        if line.request.reuse and self.cache.budget:
            count = min(count, every - done % every)
        return count

    def _forward(self) -> None:
        drafts = True
        while self._running:
            parts = self._plan(drafts=drafts)
            needed = sum(self._pages_needed(part) for part in parts)
            if needed > self._runner.pages_free and (drafts or self._make_room(parts)):
                drafts = False  # guesses are worth no one's place
                continue
            try:
                rows = self._runner.forward([self._chunk(part) for part in parts])
            except PoolExhausted as error:
                self._undo(parts)
                if not drafts and not self._make_room(parts):
                    self._fail(parts[0].line, error)
                drafts = False
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is: find out whose it is
                self._undo(parts)
                self._isolate(parts, error)
                continue
            self.metrics.batch.observe(len(parts))
            self.metrics.step_tokens.observe(sum(part.size for part in parts))
            self.metrics.computed_tokens += sum(part.size for part in parts)
            for part, logits in zip(parts, rows, strict=True):
                self._take(part, logits)
            return

    def _chunk(self, part: _Part) -> Chunk:
        line = part.line
        assert line.state is not None
        first = line.computed
        part.reached = first + part.count
        tokens = line.tokens[first : first + part.count]
        if part.draft.size:
            part.before = line.state.snapshot()
            tokens = np.concatenate([tokens, part.draft])
        want = "all" if part.draft.size else "last" if part.complete else "none"
        return Chunk(line.state, np.ascontiguousarray(tokens), want, line.embeddings(first, tokens.size))

    def _pages_needed(self, part: _Part) -> int:
        done = part.line.computed
        # The snapshot to go back to shares the last page, which is copied then. Otherwise whether it is
        # shared is not known here: the runner says so, before anything has changed.
        shared = 1 if part.draft.size and done % PAGE_TOKENS else 0
        return pages_for(done + part.size) - pages_for(done) + shared

    def _make_room(self, parts: Iterable[_Part]) -> bool:
        """Gives pages back: kept states, then the latest request; False: one request is all there is."""
        first = min((part.line for part in parts), key=lambda each: each.number)
        return self.cache.drop_oldest() or self._preempt(but=first)

    def _undo(self, parts: Iterable[_Part]) -> None:
        for part in parts:
            if part.before is not None:
                part.before.close()

    def _isolate(self, parts: list[_Part], error: Exception) -> None:
        """A step failed: if one request was in it, it is its failure; otherwise each is tried alone.

        What the step did to the states is not known, so they are made again.
        """
        if len(parts) == 1:
            self._fail(parts[0].line, error)
            return
        for part in parts:
            line = part.line
            line.suspect = max(line.suspect, part.reached)
            line.release()
            self._start(line, self._beginning(line))

    # ------------------------------------------------------------ what comes of it

    def _take(self, part: _Part, logits: Array | None) -> None:
        line = part.line
        try:
            if logits is not None:
                if not line.output_tokens:
                    self._keep(line, logits[-1])
                self._answer(part, logits)
            self._keep(line)
        except Exception as error:  # noqa: BLE001 - its sampler, guide, watcher or state: others go on
            self._fail(line, error)
        finally:
            if part.before is not None:
                part.before.close()
        if line.ended is not None and line in self._running:
            self._leave(line, line.end(line.ended), line.ended)

    def _answer(self, part: _Part, logits: Array) -> None:
        line = part.line
        kept = line.choose(logits[-1 - part.draft.size :], part.draft, lambda token: self._emit(line, token))
        if part.draft.size:
            line.drafted += part.draft.size
            line.drafts_kept += kept
            self.metrics.drafted_tokens += part.draft.size
            self.metrics.drafts_kept += kept
            assert line.lookup is not None and line.state is not None and part.before is not None
            line.lookup.learn(part.draft.size, kept)
            if kept < part.draft.size:
                line.state.rewind(part.before)

    def _keep(self, line: Line, logits: Array | None = None) -> None:
        """Remembers a state that later texts may start from: at borders, and where prompt and answer end."""
        done = line.computed
        if not (line.request.reuse and self.cache.budget and done and line.state is not None):
            return
        if logits is None and done % self._limits.snapshot_every and line.ended is None:
            return
        tokens = line.tokens[:done]
        if not self.cache.holds(tokens, line.prints, logits=logits is not None):
            self.cache.keep(tokens, line.prints, line.state.snapshot(), logits)

    def _emit(self, line: Line, token: Token) -> None:
        now = self._clock()
        if line.told is None:
            self.metrics.time_to_first_token.observe(now - line.arrived)
        else:
            self.metrics.inter_token.observe(now - line.told)
        line.told = now
        self.metrics.output_tokens += 1
        self._waiting.served(line.request.owner, 1)
        self._outbox.append((line, token))

    def _fail(self, line: Line, error: BaseException) -> None:
        if not isinstance(error, ModelError | MemoryError):
            wrapped = ModelError(f"the model failed: {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            error = wrapped
        self._leave(line, error, "error")

    def _leave(self, line: Line, last: Item | BaseException, how: str) -> None:
        line.release()
        if line in self._running:
            self._running.remove(line)
        else:
            self._waiting.remove(line)
        self.metrics.ended(how)
        self._outbox.append((line, last))

    def _flush(self) -> None:
        """Figures first: who has its last item finds them up to date."""
        figures = self.metrics
        figures.waiting, figures.running = len(self._waiting), len(self._running)
        figures.pages_total, figures.pages_free = self._runner.pages_total, self._runner.pages_free
        figures.prefix_entries, figures.prefix_bytes = len(self.cache), self.cache.nbytes
        figures.prefix_evictions = self.cache.evictions
        outbox, self._outbox = self._outbox, []
        for line, item in outbox:
            line.deliver(item)

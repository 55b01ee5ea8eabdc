"""Keeps the prompts of one conversation within the model's window.

Before each step the prompt is counted; near the window the view is compacted: by a summary
of the same model where that works, by cutting old results where it does not. The log keeps
everything, so a view can always be taken back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from ...engine.chat import ChatModel, Message, ToolSpec, Usage
from ...engine.remote.failures import Failure
from ...sandbox.base.errors import ModelError
from ..agent.events import ContextCompacted, Notice
from .account import TokenAccount, asked_in, window_in
from .facts import Facts, Present
from .plan import Shown, head_length, open_round, recent_rounds, squeeze
from .settings import ASSUMED_WINDOW, ContextSettings, answer_reserve
from .summary import summarise
from .view import ViewPlan

_MARGIN = 64
"""Tokens a chat template may add."""
_UNSURE = 0.15
"""Of what the server has not counted yet: how far our estimate of it may be too low."""
_LEAST_ANSWER = 256
_MOST_ANSWER = 32_768
_AGAIN = 0.05
"""Share of the window that must have been added before a compaction that did not help is tried again."""
_FAILED_SUMMARIES = 2
"""After so many failures in a row the model is not asked for summaries any more."""

HEADING = (
    "[The earlier part of this conversation is not shown any more, to save context: {count} messages."
    " The complete record is kept. What it showed:]"
)


class ViewedHistory(Protocol):
    """What is needed of a history."""

    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def view(self) -> Sequence[Message]: ...
    @property
    def plan(self) -> ViewPlan: ...
    @property
    def generation(self) -> int: ...
    def compact(self, plan: ViewPlan) -> None: ...


class ContextKeeper:
    """Accounts, answer limits and compactions of one conversation of one model."""

    def __init__(
        self,
        model: ChatModel,
        specs: Sequence[ToolSpec],
        *,
        settings: ContextSettings,
        present: Present,
        clean: Callable[[str], str],
        emit: Callable[[ContextCompacted | Notice], None],
        spent: Callable[[Usage | None, int], None],
    ) -> None:
        """
        Args:
            present: the hash of a file of the working copy as it is now.
            clean: makes text fit to be sent and stored.
            spent: receives what each summary request used.
        """
        self._model = model
        self._settings = settings
        self._present = present
        self._clean = clean
        self._emit = emit
        self._spent = spent
        # The embedded policy reads the typed data of all results and has no window.
        self._active = not (model.name == "embedded" or model.context_window == 0)
        self._learned: int | None = None
        self._fixed = model.count_tokens([], specs) if self._active else 0
        self._account = TokenAccount(lambda message: model.count_tokens([message], ()), self._fixed)
        self._facts = Facts()
        self._failed = 0
        self._stuck_at = 0

    @property
    def window(self) -> int | None:
        """Tokens of prompt plus answer, as far as known."""
        known = self._settings.window or self._model.context_window, self._learned
        return min((value for value in known if value), default=None)

    def answer_limit(self, history: ViewedHistory) -> int | None:
        """``max_output_tokens`` of the next request: prompt and answer fit. None: the server decides."""
        window = self.window
        if not self._active or window is None:
            return None
        left = window - self._account.prompt(history.view, history.generation) - _MARGIN
        left -= int(_UNSURE * self._account.unsure(history.view, history.generation))
        return max(_LEAST_ANSWER, min(left, _MOST_ANSWER))

    def reported(self, history: ViewedHistory, usage: Usage | None) -> None:
        """The step's prompt (the present view) as the server counted it; before the answer is appended."""
        if self._active:
            self._account.report(history.view, history.generation, usage)

    def estimate(self, history: ViewedHistory, answer: Message) -> int:
        """Our own count of a step without usage."""
        if not self._active:
            return self._model.count_tokens([*history.view, answer], ())
        return self._account.prompt(history.view, history.generation) + self._account.of([answer])

    async def fit(self, history: ViewedHistory, *, seed: int, deadline: float | None) -> None:
        """Compacts where the next prompt would come too near the window."""
        if not self._active:
            return
        tokens = self._account.prompt(history.view, history.generation)
        if tokens <= max(self._limit(), self._stuck_at):
            return
        await self._compact(history, tokens, "threshold", seed, deadline)

    async def overflowed(
        self, history: ViewedHistory, error: ModelError, *, seed: int, deadline: float | None
    ) -> bool:
        """Learns from a refusal and makes room; False: it was none, or nothing can be left out."""
        if not self._active or getattr(error, "failure", None) is not Failure.CONTEXT_OVERFLOW:
            return False
        tokens = self._account.prompt(history.view, history.generation)
        named, asked = window_in(error.message), asked_in(error.message)
        window = self.window
        self._learned = named or min(window or ASSUMED_WINDOW, max(512, int(tokens * 0.9)))
        # Whatever we thought: by the server's count this prompt is larger than its window (or than
        # what is left of it beside the answer).
        least = asked or int(self._learned * (0.9 if window else 1.0))
        self._account.refused(history.view, history.generation, least)
        if asked is not None and asked <= self._limit():
            return True  # only the answer had no room: its limit is smaller now
        tokens = max(least, self._account.prompt(history.view, history.generation))
        return await self._compact(history, tokens, "overflow", seed, deadline)

    # ------------------------------------------------------------------ compaction

    def _limit(self) -> int:
        window = self.window or ASSUMED_WINDOW
        return min(int(window * self._settings.compact_at), window - answer_reserve(window) - _MARGIN)

    async def _compact(
        self,
        history: ViewedHistory,
        before: int,
        reason: Literal["threshold", "overflow"],
        seed: int,
        deadline: float | None,
    ) -> bool:
        """True when the view is smaller afterwards."""
        window = self.window or ASSUMED_WINDOW
        target = int(self._limit() * 0.6)
        old, total = history.plan, len(history.messages)
        fixed = int(self._fixed * self._account.ratio)
        shown = Shown(history.view, old, history.messages, self._account.of, fixed)
        head = old.head or head_length(history.messages[:64])
        start = max(old.tail, head)
        opened = open_round(shown, start, total)
        recent = int(window * self._settings.recent_share)
        tail = recent_rounds(shown, opened, start, total, recent)
        if tail == start:
            # Everything but the open round is recent: then the oldest of it goes all the same.
            tail = opened
        method: Literal["summary", "trimmed"] = "trimmed"
        problem, facts = "", self._facts
        plan = old.model_copy(update={"head": head, "tail": start})
        if tail > start:
            left_out = [shown[index] for index in range(start, tail)]
            facts = self._facts_with(history.messages[start:tail])
            text, problem = await self._summary(history, left_out, window, seed, deadline)
            record = facts.text(self._present)
            if text:
                method = "summary"
                plan = self._left_out(old, head, tail, f"Summary\n{text}\n\n{record}")
            else:
                plan = squeeze(plan, shown, target, opened)
                if shown.tokens(plan) > target:
                    bare = "\n\n".join(part for part in (_body(old.summary), record) if part)
                    plan = self._left_out(old, head, tail, _bounded(bare, window))
        plan = squeeze(plan, shown, target, opened)
        after = shown.tokens(plan)
        if after >= before:
            self._stuck_at = before + int(window * _AGAIN)
            return False
        self._stuck_at = after + int(window * _AGAIN)
        if plan.tail == tail > start:
            self._facts = facts
        history.compact(plan)
        self._emit(self._event(method, reason, problem, before, after, plan))
        return True

    async def _summary(
        self,
        history: ViewedHistory,
        left_out: Sequence[Message],
        window: int,
        seed: int,
        deadline: float | None,
    ) -> tuple[str, str]:
        """The model's text, or why there is none."""
        if self._failed >= _FAILED_SUMMARIES:
            return "", "the model gave no usable summary before"
        most = max(256, min(window // 8, 8192))
        self._emit(Notice(text="the context is nearly full: asking the model for a summary"))
        summary = await summarise(
            self._model,
            left_out,
            earlier=_body(history.plan.summary),
            most_tokens=most,
            room=window - _MARGIN,
            count=self._account.of,
            clean=self._clean,
            seed=seed,
            seconds=None if deadline is None else deadline - time.monotonic(),
        )
        for usage, guess in summary.usages:
            self._spent(usage, guess)
        self._failed = 0 if summary.text else self._failed + 1
        return summary.text, summary.problem

    def _facts_with(self, messages: Sequence[Message]) -> Facts:
        facts = Facts(
            dict(self._facts.files),
            list(self._facts.calls),
            self._facts.looked,
            list(self._facts.said),
            self._facts.dropped_calls,
        )
        facts.take(messages)
        return facts

    def _left_out(self, old: ViewPlan, head: int, tail: int, body: str) -> ViewPlan:
        heading = HEADING.format(count=tail - head)
        return ViewPlan(
            head=head, tail=tail, summary=self._clean(f"{heading}\n\n{body}"), cuts=old.cuts
        ).with_cuts(())

    def _event(
        self,
        method: Literal["summary", "trimmed"],
        reason: Literal["threshold", "overflow"],
        problem: str,
        before: int,
        after: int,
        plan: ViewPlan,
    ) -> ContextCompacted:
        how = "a summary stands for earlier messages" if method == "summary" else "old results are cut"
        if method == "trimmed" and plan.summary:
            how = "a list of what was done stands for earlier messages"
        why = f" ({problem})" if problem else ""
        return ContextCompacted(
            text=f"context compacted from about {before} to {after} tokens: {how}{why}",
            method=method,
            reason=reason,
            before_tokens=before,
            after_tokens=after,
            view=plan,
        )


def _body(summary: str) -> str:
    """A summary without its heading, to be condensed again."""
    return summary.split("]\n\n", 1)[-1]


def _bounded(text: str, window: int) -> str:
    most = max(1000, window // 4)
    return text if len(text) <= most else f"{text[: most // 2]}\n[...]\n{text[-most // 2 :]}"

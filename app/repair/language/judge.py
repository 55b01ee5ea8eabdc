"""Asks the scoring process what the language model thinks of candidates.

It judges or it says in one line why it does not (``note``): never does a repair depend on it. The
process has a limit on its memory, is ended with the run, and its end is only the end of its judgements.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....engine.gguf.files import UnusableModel
from ....engine.gguf.library import lacking_library
from ....sandbox.base.errors import ConfigError, ToolError
from ....sandbox.base.process import ProcessChannel, base_environment, open_process_channel
from ...paths import cache_dir
from ..candidates import Candidate
from ..source import ModuleSource
from .excerpt import Piece, judged_until, pieces
from .weights import find_model

NONE = "none: "
"""How a note begins when there is no language model."""
MOST = 100
"""Candidates judged at most, the first ones; a count and no time limit, so that results stay the same."""
_LONGEST_S = 600.0
_MEMORY = 4 << 30
"""Address space; about 0.5 GiB of it is used."""


class Judge:
    """The language model's opinion of candidates of one run. Made by ``open``; ``close`` it.

    Attributes:
        note: the model's name, or ``none: `` and the reason.
        out_of_time: whether the clock was the reason.
    """

    def __init__(self, channel: ProcessChannel | None, note: str, until: float) -> None:
        self._channel = channel
        self._until = until
        self.note = note
        self.out_of_time = False

    @classmethod
    async def open(cls, *, model: Path | None = None, seconds: float | None = None) -> Judge:
        """Starts the process; never raises for want of one.

        Args:
            model: a GGUF file; without it the one that the environment names or the wheel's.
            seconds: for everything; a safeguard, the work is bounded by ``MOST``.
        """
        end = time.monotonic() + (_LONGEST_S if seconds is None else seconds)
        if (lacking := lacking_library()) is not None:
            return cls(None, NONE + lacking, end)
        try:
            argv = [sys.executable, "-P", "-m", "whimbrel.app.repair.language.child", str(find_model(model))]
            channel = await open_process_channel(
                [*argv, str(cache_dir() / "models")],
                cwd="/",
                # One thread everywhere: the numbers are the same, and nothing waits in busy loops.
                env=base_environment({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
                rlimits={resource.RLIMIT_AS: (_MEMORY, _MEMORY), resource.RLIMIT_CORE: (0, 0)},
            )
        except UnusableModel as error:
            return cls(None, NONE + str(error), end)
        except (ToolError, ConfigError) as error:
            return cls(None, NONE + error.one_line(), end)
        judge = cls(channel, "", end)
        try:
            answer = await judge.hear()
        except BaseException:
            await judge.close()
            raise
        if answer is not None:
            judge.note = str(answer["ready"]["model"])
        return judge

    @property
    def pid(self) -> int | None:
        """The scoring process, while there is one."""
        return None if self._channel is None else self._channel.pid

    async def differences(
        self, candidates: Sequence[Candidate], sources: Mapping[str, ModuleSource]
    ) -> list[float | None]:
        """How much likelier than the original the model finds each candidate's lines.

        Mean log-probability per token of the changed lines, given the text before them, minus
        the same of the lines as they are. The same candidates in the same order give the same numbers.

        Returns:
            Natural logarithms per token, usually between -2 and 2; None where there is no opinion
            (beyond the first ``MOST``, too long, or no model).
        """
        nothing: list[float | None] = [None] * len(candidates)
        if self._channel is None:
            return nothing
        parts = [(number, part) for number, each in enumerate(candidates[:MOST]) for part in each.parts]
        opinions: dict[int, list[float | None]] = {}
        for piece in pieces([part for _, part in parts], sources):
            sums = await self._ask(piece)
            if sums is None:
                return nothing
            for member, values in zip(piece.members, sums, strict=True):
                opinions.setdefault(parts[member][0], []).append(difference(values))
        found = [_mean(opinions.get(number, ())) for number in range(len(candidates))]
        return found

    async def _ask(self, piece: Piece) -> list[list[float] | None] | None:
        changes = [
            [each.start, each.end, each.text, judged_until(piece.text, each)] for each in piece.changes
        ]
        answer = await self._answer({"text": piece.text, "changes": changes})
        return None if answer is None else answer["sums"]

    async def lines(self, text: str, count: int, seed: int) -> list[tuple[str, float]] | None:
        """Lines the model would write after a text, likeliest first, with their mean log-probability
        per token; the same every time. None when there is no model (any more)."""
        answer = await self._answer({"text": text, "lines": count, "seed": seed})
        return None if answer is None else [(line, mean) for line, mean in answer["lines"]]

    async def _answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        if self._channel is None:
            return None
        try:
            await self._channel.send((json.dumps(request) + "\n").encode())
        except ToolError as error:
            await self._give_up(error.one_line())
            return None
        return await self.hear()

    async def hear(self) -> dict[str, Any] | None:
        """The process's next answer; None when there is none, and then the note says why."""
        if self._channel is None:
            return None
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                line = await self._channel.receive_line()
        except TimeoutError:
            self.out_of_time = True
            await self._give_up("out of time")
            return None
        except ToolError as error:
            await self._give_up(error.one_line())
            return None
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            await self._give_up("the scoring process has ended")
            return None
        if "failed" in answer:
            await self._give_up(str(answer["failed"]))
            return None
        return answer

    async def _give_up(self, reason: str) -> None:
        self.note = NONE + reason
        await self.close()

    async def close(self) -> None:
        """Ends the process; may be called again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.kill_now()
            await channel.close()


def difference(values: Sequence[float] | None) -> float | None:
    """From the sums of ``child.py`` to the mean per token against the original's."""
    if values is None:
        return None
    new_sum, new_count, new_after, new_behind, old_sum, old_count, old_after, old_behind = values
    if not (new_count and old_count):
        # Lines came or went: what follows them is all that both texts have.
        new_sum, new_count = new_sum + new_after, new_count + new_behind
        old_sum, old_count = old_sum + old_after, old_count + old_behind
    if not (new_count and old_count):
        return None
    return new_sum / new_count - old_sum / old_count


def _mean(values: Sequence[float | None]) -> float | None:
    """Of all parts; nothing where one has no opinion."""
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None

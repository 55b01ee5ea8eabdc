"""What the harness itself costs: time per turn with everything but the model, and memory of a long session.

A scripted model in this process answers at once, so what is measured is the loop, limits,
history, session store, token accounting, cleaning of the stream, permissions and one read of
a real file per turn. The time of putting the messages into a request (which a remote model
does in the same process) is measured beside it.

    python benchmarks/harness_overhead.py [--results 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from whimbrel.app.agent.limits import MaxAnswer, MaxSteps
from whimbrel.app.agent.loop_guard import LoopGuard
from whimbrel.app.agent.prompts import opening
from whimbrel.app.context.settings import ContextSettings
from whimbrel.app.tools.read import ReadTool
from whimbrel.engine.chat import (
    Capabilities,
    Finished,
    Message,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    ToolSpec,
    Usage,
)
from whimbrel.engine.remote.wire import encode_messages, encode_tools, estimate_tokens

from tests.agent.scene import scene

PIECES = 60
"""Deltas of one answer, as a server streams them."""


class Scripted:
    """Asks to read one file after the other; notes when it was asked and when it had answered."""

    name = "scripted"
    capabilities = Capabilities(tools=True)

    def __init__(self, window: int, turns: int) -> None:
        self.context_window = window
        self.turns = turns
        self.asked: list[tuple[float, float, int]] = []
        """(asked, answered, messages of the prompt) per turn."""
        self.encoding: dict[int, float] = {}

    def count_tokens(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        return estimate_tokens(history, tools)

    async def stream(
        self,
        history: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        effort: str = "high",
        max_output_tokens: int | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[Any]:
        begun = time.perf_counter()
        if not tools:
            yield TextDelta(text="GOAL: read all. DONE: files were read. NEXT: read on.")
            yield Finished(reason="stop")
            return
        number = len(self.asked)
        if number % 100 == 0:
            start = time.perf_counter()
            json.dumps({"messages": encode_messages(history, "x"), "tools": encode_tools(tools)}).encode()
            self.encoding[len(history)] = time.perf_counter() - start
        events: list[Any] = [ReasoningDelta(text="word ") for _ in range(PIECES)]
        if number >= self.turns:
            events += [TextDelta(text="done"), Finished(reason="stop")]
        else:
            arguments = json.dumps({"path": f"data/file{number}.py"})
            events += [
                ToolCallStart(id=f"c{number}", name="read"),
                ToolCallArguments(id=f"c{number}", delta=arguments),
                ToolCallEnd(id=f"c{number}", name="read", arguments=arguments),
                Usage(input_tokens=estimate_tokens(history, tools), output_tokens=100),
                Finished(reason="tool_calls"),
            ]
        self.asked.append((begun, time.perf_counter(), len(history)))
        for event in events:
            yield event

    async def close(self) -> None: ...


async def session(results: int, window: int, lines: int) -> tuple[Scripted, dict[str, float]]:
    """One run of so many turns, each with a result of about ``lines`` lines."""
    files = {
        f"data/file{number}.py": f"# file {number}\n"
        + f"value = {number}  # some words to fill the line\n" * lines
        for number in range(results)
    }
    with tempfile.TemporaryDirectory() as folder:
        async with scene(Path(folder), files) as made:
            model = Scripted(window, results)
            kinds: dict[str, int] = {}

            def count(event: Any) -> None:
                kinds[event.kind] = kinds.get(event.kind, 0) + 1

            agent = made.make(model, [ReadTool()], limits=[MaxSteps(10_000), MaxAnswer(), LoopGuard()])
            agent._on_event, agent._window = count, ContextSettings()  # type: ignore[attr-defined]
            gc.collect()
            rss = _rss()
            outcome = await agent.run(opening("read everything"))
            assert outcome.status == "answered", outcome
            gc.collect()
            memory = {
                "rss_before": rss,
                "rss_after": _rss(),
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "compactions": kinds.get("context_compacted", 0),
            }
    return model, memory


def _rss() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def turn_times(model: Scripted) -> list[float]:
    """Seconds between an answer of the model and its next question."""
    return [later[0] - earlier[1] for earlier, later in zip(model.asked, model.asked[1:], strict=False)]


def around(times: Sequence[float], messages: int) -> tuple[float, float]:
    """(median, 95th percentile) in milliseconds of 40 turns around a length of the history."""
    turn = min(messages // 2, len(times))
    part = sorted(times[max(0, turn - 20) : turn + 20])
    return statistics.median(part) * 1e3, part[int(len(part) * 0.95) - 1] * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=2000)
    options = parser.parse_args()
    # As in real use: with a key in the environment every text is searched for it.
    os.environ.setdefault("WHIMBREL_API_KEY", "sk-benchmark-0123456789abcdef")
    print(f"{PIECES} stream pieces, one read of a real file and its record per turn\n")
    wide, _ = asyncio.run(session(min(options.results, 1020), 50_000_000, 20))
    times = turn_times(wide)
    for messages in (200, 2000):
        median, high = around(times, messages)
        print(f"all messages shown, {messages:>5}: {median:6.1f} ms a turn (95 %: {high:.1f} ms)")
    for messages, seconds in sorted(wide.encoding.items()):
        if messages > 1800 or 180 < messages < 420:
            print(f"   encoding a request of {messages} messages: {seconds * 1e3:.1f} ms more")
    model, memory = asyncio.run(session(options.results, 131_072, 200))
    times = turn_times(model)
    print(
        f"\n{options.results} results of 10 kB in a window of 131,072 tokens: {memory['compactions']:.0f} compactions,"
        f" median {statistics.median(times) * 1e3:.1f} ms, last 100 turns {statistics.median(times[-100:]) * 1e3:.1f} ms,"
        f" slowest {max(times) * 1e3:.0f} ms"
    )
    print(
        f"memory: {memory['rss_before']:.0f} MiB before, {memory['rss_after']:.0f} MiB after, peak {memory['peak']:.0f} MiB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

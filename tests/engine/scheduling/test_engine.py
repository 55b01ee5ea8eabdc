"""The thread that owns the model, seen from asyncio."""

from __future__ import annotations

import asyncio
import threading

import pytest
from whimbrel.engine.scheduling.engine import Engine
from whimbrel.engine.scheduling.request import Closing, Ended, InvalidRequest, Request, Token
from whimbrel.engine.scheduling.scheduler import Limits
from whimbrel.sandbox.base.errors import ModelError

from tests.engine.scheduling.hash_runner import HashRunner
from tests.engine.scheduling.test_scheduler import alone, ask

NONE_KEPT = Limits(prefix_bytes=0)


async def answer(engine: Engine, request: Request) -> list[int]:
    return [item.id async for item in engine.generate(request) if isinstance(item, Token)]


class Held(HashRunner):
    """Waits before every step until it is let go."""

    def __init__(self, **more) -> None:
        super().__init__(**more)
        self.go, self.reached = threading.Event(), threading.Event()

    def forward(self, chunks):
        self.reached.set()
        assert self.go.wait(30)
        return super().forward(chunks)


async def test_many_clients_at_a_time_get_their_own_answers():
    engine = Engine(runner := HashRunner(), Limits(batch=8, step_tokens=128, prefix_bytes=0))
    requests = [ask(10 + 7 * seed, seed) for seed in range(24)]
    assert await asyncio.gather(*(answer(engine, request) for request in requests)) == [
        alone(r) for r in requests
    ]
    assert max(len(step) for step in runner.steps) > 1 and runner.pages_free == runner.pages_total
    figures = engine.metrics
    assert figures.finished == {"length": 24} and figures.output_tokens == 480
    assert figures.time_to_first_token.count == 24 and figures.inter_token.count == 456
    engine.close()


async def test_leaving_the_stream_early_cancels_the_request():
    engine = Engine(runner := HashRunner(), NONE_KEPT)
    stream = engine.generate(ask(300, 1, max_tokens=2000))
    async for _ in stream:
        break
    await stream.aclose()
    await asyncio.wait_for(engine.drain(), 30)
    assert engine.metrics.finished == {"cancelled": 1} and runner.pages_free == runner.pages_total
    engine.close()


async def test_draining_finishes_what_runs_and_takes_nothing_new():
    engine = Engine(runner := Held(), NONE_KEPT)
    running = asyncio.create_task(answer(engine, ask(10, 1)))
    assert await asyncio.to_thread(runner.reached.wait, 30)
    drained = asyncio.create_task(engine.drain())
    while True:
        try:
            engine.submit(ask(3), lambda item: None).cancel()
        except Closing:
            break
        await asyncio.sleep(0)
    assert not drained.done()
    runner.go.set()
    await asyncio.wait_for(drained, 30)
    assert await running == alone(ask(10, 1))
    engine.close()


async def test_closing_ends_what_runs_and_gives_everything_back():
    engine = Engine(runner := Held())
    running = asyncio.create_task(answer(engine, ask(10, 1, max_tokens=3000)))
    assert await asyncio.to_thread(runner.reached.wait, 30)
    runner.go.set()
    await asyncio.to_thread(engine.close)
    with pytest.raises(Closing):
        await running
    assert runner.pages_free == runner.pages_total
    with pytest.raises(Closing):
        engine.submit(ask(3), lambda item: None)


async def test_a_scheduler_that_fails_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch):
    engine = Engine(HashRunner())
    monkeypatch.setattr(engine._scheduler, "_admit", lambda: 1 / 0)
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        await asyncio.wait_for(answer(engine, ask(10, 1)), 30)
    with pytest.raises(Closing, match="ZeroDivisionError"):
        await answer(engine, ask(10, 1))
    engine.close()


async def test_a_request_that_cannot_run_is_refused_at_once():
    engine = Engine(HashRunner(context=50))
    with pytest.raises(InvalidRequest, match="window"):
        await answer(engine, ask(50))
    items = [item async for item in engine.generate(ask(3, 1))]
    assert isinstance(items[-1], Ended) and items[-1].prompt_tokens == 3
    engine.close()

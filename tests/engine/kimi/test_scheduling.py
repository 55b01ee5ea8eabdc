"""The scheduler over real (tiny, random) models: sharing, interrupting and reusing change no token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.scheduling.request import Request, Sampling

from tests.engine.scheduling.test_scheduler import run, scheduler


@pytest.fixture(scope="module", params=["k3", "k31", "kimi-linear"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny") / request.param
    make_tiny(made, TinyOptions(request.param, hidden=32, layers=4, experts=4, dtype="F32"))
    return made


def opened(folder: Path, pages: int | None = None):
    """A fresh model; ``pages`` of 64 tokens at most."""
    runner = load_runner(folder, LoadOptions(exact=True, cache="f32", cache_bytes=64 << 20))
    if pages is not None:
        size = (64 << 20) // runner.pages_total
        runner.close()
        runner = load_runner(folder, LoadOptions(exact=True, cache="f32", cache_bytes=pages * size))
        assert runner.pages_total == pages
    return runner


def asked(length: int, seed: int, **more) -> Request:
    prompt = np.random.default_rng(seed).integers(0, 300, length)
    return Request(prompt, Sampling(temperature=0), **{"max_tokens": 8, **more})


REQUESTS = [(5, 1), (64, 2), (90, 3), (150, 4)]


def test_sharing_a_model_with_others_changes_nothing(folder: Path):
    requests = [asked(*each) for each in REQUESTS]
    alone = [run(scheduler(opened(folder)), request)[0].ids for request in requests]
    together = run(scheduler(opened(folder), step_tokens=80), *requests)
    assert [answer.ids for answer in together] == alone


def test_giving_up_a_place_and_computing_again_changes_nothing(folder: Path):
    requests = [asked(62, 1, max_tokens=68), asked(126, 2, max_tokens=68)]
    alone = [run(scheduler(opened(folder)), request)[0].ids for request in requests]
    work = scheduler(runner := opened(folder, pages=6), batch=4)
    interrupted = run(work, *requests)
    assert [answer.ids for answer in interrupted] == alone and work.metrics.preemptions > 0
    assert runner.pages_free == runner.pages_total


def test_kept_states_and_guesses_change_nothing(folder: Path):
    work = scheduler(runner := opened(folder), prefix_bytes=64 << 20, snapshot_every=64)
    prompt = asked(80, 5).prompt
    for turn in range(3):
        request = Request(prompt, Sampling(temperature=0), max_tokens=8, speculate=turn * 3)
        (answer,) = run(work, request)
        cold = Request(prompt, Sampling(temperature=0), max_tokens=8)
        assert answer.ids == run(scheduler(opened(folder)), cold)[0].ids
        assert answer.last.cached_tokens >= (len(prompt) - 20 if turn else 0)
        prompt = np.concatenate([prompt, answer.ids, asked(9, turn).prompt])
    work.cache.clear()
    assert runner.pages_free == runner.pages_total

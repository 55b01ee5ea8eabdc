"""States of earlier requests are used again, and give the same answers as computing everything."""

from __future__ import annotations

import numpy as np
from whimbrel.engine.scheduling.request import Request, Sampling

from tests.engine.scheduling.hash_runner import HashRunner
from tests.engine.scheduling.test_scheduler import ask, run, scheduler, text


def cold(request: Request) -> list[int]:
    return run(scheduler(HashRunner()), request)[0].ids


def warm(runner: HashRunner | None = None, **limits):
    return scheduler(runner or HashRunner(), **{"prefix_bytes": 1 << 20, **limits})


def test_a_conversation_goes_on_from_the_end_of_the_last_answer():
    work = warm(runner := HashRunner())
    prompt = text(150, 1)
    for turn in range(4):
        request = Request(prompt, Sampling(seed=turn), max_tokens=15)
        before = runner.computed
        (answer,) = run(work, request)
        assert answer.ids == cold(request)
        assert answer.last.cached_tokens == (0 if turn == 0 else len(prompt) - 11)
        assert runner.computed - before == len(prompt) - answer.last.cached_tokens + 14
        # The last token of an answer has not gone through the model.
        prompt = [*prompt, *answer.ids, *text(10, turn)]
    assert work.metrics.prefix_hits == 3


def test_the_end_of_a_prompt_is_kept_even_where_the_answer_is_written_differently_the_next_time():
    work = warm()
    prompt = text(150, 1)
    run(work, Request(prompt, max_tokens=15))
    request = Request([*prompt, *text(40, 2)], Sampling(seed=1), max_tokens=15)
    (answer,) = run(work, request)
    assert answer.last.cached_tokens == 150 and answer.ids == cold(request)


def test_the_same_prompt_again_needs_no_computation_for_its_first_token():
    work = warm(runner := HashRunner())
    answers = []
    for seed in (1, 3, 1):
        runner.steps.clear()
        answers += run(work, ask(200, sampling=Sampling(seed=seed), max_tokens=1))
    assert runner.steps == [] and answers[2].last.cached_tokens == 200
    assert answers[0].ids == answers[2].ids


def test_blocks_without_a_state_are_no_hit():
    """Equal tokens are there, but no state to start from at the place where the texts part."""
    work = warm()
    prompt = text(300, 1)
    run(work, Request(prompt, max_tokens=3))
    request = Request([*prompt[:200], *text(100, 2)], Sampling(seed=1), max_tokens=5)
    (answer,) = run(work, request)
    assert answer.last.cached_tokens == 0 and answer.ids == cold(request)


def test_long_prompts_leave_states_at_regular_borders():
    work = warm(snapshot_every=128, step_tokens=100)
    prompt = text(700, 1)
    run(work, Request(prompt, max_tokens=3))
    request = Request([*prompt[:400], *text(50, 2)], Sampling(seed=1), max_tokens=5)
    (answer,) = run(work, request)
    assert answer.last.cached_tokens == 384 and answer.ids == cold(request)


def test_the_least_recently_used_state_goes_first_and_the_bytes_stay_within_the_budget():
    work = warm(runner := HashRunner(), prefix_bytes=4500)
    prompts = [text(100, seed) for seed in range(4)]
    cached = []
    for number in (0, 1, 0, 2, 3, 0, 1):
        (answer,) = run(work, Request([*prompts[number], 5], Sampling(temperature=0), max_tokens=1))
        cached.append(answer.last.cached_tokens)
        assert work.cache.nbytes <= 4500
    assert cached[2] == 101 and cached[5] == 101 and cached[6] == 0
    work.cache.clear()
    assert runner.pages_free == runner.pages_total and work.cache.nbytes == 0


def test_a_request_can_keep_out_of_the_cache():
    work = warm()
    run(work, ask(100, 1, reuse=False))
    assert len(work.cache) == 0


def test_random_conversations_with_little_memory_answer_as_with_none_kept():
    random = np.random.default_rng(7)
    work = warm(
        runner := HashRunner(pages=40, period=5),
        snapshot_every=128,
        step_tokens=96,
        batch=4,
        prefix_bytes=30_000,
    )
    texts = [text(int(random.integers(1, 300)), seed) for seed in range(5)]
    for turn in range(6):
        requests = [
            Request(prompt[: int(random.integers(len(prompt) * 2 // 3, len(prompt) + 1))] + text(int(random.integers(0, 90)), 50 + turn),
                    Sampling(seed=turn, temperature=0.8), max_tokens=int(random.integers(1, 90)), speculate=turn % 3 * 3)
            for prompt in texts
        ]  # fmt: skip
        answers = run(work, *requests)
        for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
            assert answer.ids == run(scheduler(HashRunner(period=5)), request)[0].ids
            texts[number] = [*request.prompt, *answer.ids]
    assert work.metrics.prefix_hits > 3
    work.cache.clear()
    assert runner.pages_free == runner.pages_total

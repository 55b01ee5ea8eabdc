"""Requests share a model without one changing another's answer."""

from __future__ import annotations

import numpy as np
import pytest
from whimbrel.engine.scheduling.guides import ThinkingBudget
from whimbrel.engine.scheduling.metrics import Metrics
from whimbrel.engine.scheduling.request import (
    Ended,
    InvalidRequest,
    QueueFull,
    Request,
    Sampling,
    Seen,
    Span,
    Token,
)
from whimbrel.engine.scheduling.scheduler import Limits, Scheduler
from whimbrel.sandbox.base.errors import ModelError

from tests.engine.scheduling.hash_runner import HashRunner


class Answer:
    """Collects what one request is told."""

    def __init__(self) -> None:
        self.items: list = []

    def __call__(self, item) -> None:
        assert not self.items or isinstance(self.items[-1], Token), "something came after the last item"
        self.items.append(item)

    @property
    def ids(self) -> list[int]:
        return [item.id for item in self.items if isinstance(item, Token)]

    @property
    def last(self):
        return self.items[-1] if self.items else None


def scheduler(runner: HashRunner, **limits) -> Scheduler:
    return Scheduler(runner, Limits(**{"prefix_bytes": 0, **limits}), Metrics(), clock=lambda: 0.0)


def run(work: Scheduler, *requests: Request) -> list[Answer]:
    answers = [Answer() for _ in requests]
    for request, answer in zip(requests, answers, strict=True):
        work.add(request, answer)
    for _ in range(10_000):
        if not work.step():
            return answers
    raise AssertionError("it does not come to an end")


def text(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 97, length).tolist()


def ask(length: int, seed: int = 0, **more) -> Request:
    sampling = more.pop("sampling", Sampling(seed=seed, temperature=1.0 if seed % 2 else 0.0))
    return Request(text(length, seed), sampling, **{"max_tokens": 20, **more})


LENGTHS = (1, 3, 64, 65, 130, 500, 1000)


def alone(request: Request, **runner) -> list[int]:
    return run(scheduler(HashRunner(**runner)), request)[0].ids


@pytest.mark.parametrize("step_tokens", [8, 100, 4096])
def test_a_batch_of_unequal_lengths_gives_what_each_request_gives_alone(step_tokens: int):
    requests = [ask(length, seed) for seed, length in enumerate(LENGTHS)]
    runner = HashRunner()
    answers = run(scheduler(runner, batch=8, step_tokens=step_tokens), *requests)
    assert [answer.ids for answer in answers] == [alone(request) for request in requests]
    assert all(len(answer.ids) == 20 and answer.last.reason == "length" for answer in answers)
    assert max(map(sum, runner.steps)) <= max(step_tokens, 8)
    assert runner.pages_free == runner.pages_total


def test_answers_do_not_stall_while_a_long_prompt_is_read():
    work = scheduler(runner := HashRunner(), batch=4, step_tokens=256)
    short = Answer()
    work.add(ask(3, max_tokens=30), short)
    work.step()
    work.add(ask(2000, 2), Answer())
    while len(short.ids) < 5:
        before = len(short.ids)
        work.step()
        assert len(short.ids) == before + 1
    assert any(len(step) == 2 and max(step) > 64 for step in runner.steps)


@pytest.mark.parametrize("speculate", [0, 4])
def test_a_preempted_request_ends_like_one_that_was_never_interrupted(speculate: int):
    requests = [ask(100 + 30 * seed, seed, max_tokens=150, speculate=speculate) for seed in range(5)]
    work = scheduler(runner := HashRunner(pages=12, period=5), batch=5, step_tokens=256)
    answers = run(work, *requests)
    assert work.metrics.preemptions > 0
    assert [answer.ids for answer in answers] == [alone(request, period=5) for request in requests]
    assert runner.pages_free == runner.pages_total
    assert sum(answer.last.preemptions for answer in answers) == work.metrics.preemptions


def test_a_full_pool_gives_up_kept_states_before_it_interrupts_anyone():
    work = scheduler(HashRunner(pages=12), prefix_bytes=1 << 20)
    for seed in range(4):
        run(work, ask(200, seed))
    (answer,) = run(work, ask(500, 9))
    assert answer.ids == alone(ask(500, 9)) and work.metrics.preemptions == 0 and work.cache.evictions > 0


@pytest.mark.parametrize("speculate", [1, 4, 16])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_guessing_ahead_changes_nothing_but_the_number_of_steps(speculate: int, temperature: float):
    sampling = Sampling(seed=5, temperature=temperature, frequency_penalty=0.01, logprobs=2)
    plain, guessed = (ask(40, 3, max_tokens=120, sampling=sampling, speculate=n) for n in (0, speculate))
    slow, fast = HashRunner(period=7), HashRunner(period=7)
    (one,), (two,) = run(scheduler(slow), plain), run(scheduler(fast), guessed)
    assert [(t.id, t.logprob, t.top) for t in one.items[:-1]] == [
        (t.id, t.logprob, t.top) for t in two.items[:-1]
    ]
    assert two.last.drafts_kept > 20 and len(fast.steps) < 0.8 * len(slow.steps)
    assert fast.pages_free == fast.pages_total


def test_a_request_that_is_cancelled_frees_its_memory_and_the_others_go_on():
    work = scheduler(runner := HashRunner(), batch=2)
    gone, kept, never = Answer(), Answer(), Answer()
    line = work.add(ask(300, 1, max_tokens=500), gone)
    work.add(ask(70, 2), kept)
    waiting = work.add(ask(300, 3), never)
    work.step()
    held = runner.pages_free
    work.cancel(line)
    work.cancel(waiting)
    work.step()
    assert runner.pages_free >= held + 5
    assert gone.last.reason == never.last.reason == "cancelled" and never.ids == []
    while work.step():
        pass
    assert kept.ids == alone(ask(70, 2)) and runner.pages_free == runner.pages_total


def test_a_request_that_breaks_the_model_fails_by_itself():
    requests = [ask(150, 1), Request([*text(3), *([96] * 90), 95, 4], max_tokens=5), ask(60, 2), ask(5, 3)]
    bad = HashRunner(poison=95)
    requests = [
        Request([t if t != 95 or n == 1 else 94 for t in r.prompt], Sampling(seed=n, temperature=0, logit_bias={95: -100}), max_tokens=8)
        for n, r in enumerate(requests)
    ]  # fmt: skip
    answers = run(scheduler(bad, batch=4, step_tokens=64), *requests)
    assert isinstance(answers[1].last, ModelError) and "breaks the model" in str(answers[1].last)
    for number in (0, 2, 3):
        assert answers[number].ids == alone(requests[number])
    assert bad.pages_free == bad.pages_total


class Raising:
    def see(self, choice) -> Seen:
        raise ValueError("no such character")


@pytest.mark.parametrize(
    ("runner", "request_", "said"),
    [
        ({"nan": 50}, Request([1, 50], max_tokens=3), "NaN"),
        ({}, Request([1, 2], max_tokens=3, watcher=Raising()), "no such character"),
    ],
)
def test_a_failure_after_the_model_concerns_one_request(runner, request_, said):
    model = HashRunner(**runner)
    other = Request([7, 8, 9], Sampling(seed=1, logit_bias={50: -100}), max_tokens=5)
    answers = run(scheduler(model), request_, other)
    assert said in str(answers[0].last)
    assert answers[1].last.reason == "length" and model.pages_free == model.pages_total


def test_owners_take_turns_however_many_requests_one_of_them_has():
    work = scheduler(HashRunner(), batch=1)
    order: list[str] = []

    class Named(Answer):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __call__(self, item) -> None:
            super().__call__(item)
            if isinstance(item, Ended):
                order.append(self.name)

    for number in range(4):
        work.add(ask(10, number, owner="many"), Named("many"))
    work.add(ask(10, 9, owner="one"), Named("one"))
    while work.step():
        pass
    assert order.index("one") == 1


def test_what_can_never_run_is_refused_and_a_full_queue_says_so():
    work = scheduler(HashRunner(context=300, pages=4), waiting=1)
    assert work.window == 128
    for request in (
        Request([]),
        Request([97]),
        Request(text(128)),
        Request([1], Sampling(top_p=2)),
        Request([1], max_tokens=0),
    ):
        with pytest.raises(InvalidRequest):
            request.check(97, work.window)
    work.add(ask(3), Answer())
    with pytest.raises(QueueFull):
        work.add(ask(3), Answer())


def test_an_answer_ends_at_the_window_a_stop_token_or_a_stop_text():
    ids = alone(ask(10, 1, max_tokens=50))
    (window,) = run(scheduler(HashRunner(context=40)), ask(10, 1, max_tokens=None))
    assert window.ids == ids[:30] and window.last.reason == "length"
    (stopped,) = run(scheduler(HashRunner()), ask(10, 1, max_tokens=50, stop_ids=frozenset({ids[4]})))
    assert stopped.ids == ids[: ids.index(ids[4]) + 1] and stopped.last.reason == "stop"

    class StopAt:
        def see(self, choice) -> Seen:
            return Seen((choice.token,), "now" if choice.token == ids[2] else None)

    (text_,) = run(scheduler(HashRunner()), ask(10, 1, max_tokens=50, watcher=StopAt()))
    assert text_.last.stop_text == "now" and text_.ids == ids[: ids.index(ids[2]) + 1]


@pytest.mark.parametrize("speculate", [0, 3])
@pytest.mark.parametrize("most", [0, 1, 7, 30])
def test_a_thinking_budget_closes_the_channel_after_exactly_that_many_tokens(most: int, speculate: int):
    end, after = (90, 91, 92), (89, 88)
    never = Sampling(seed=3, logit_bias={90: -100})
    guide = ThinkingBudget(most, end, after)
    (answer,) = run(
        scheduler(HashRunner(period=6)),
        ask(20, 1, sampling=never, guide=guide, max_tokens=60, speculate=speculate),
    )
    assert answer.ids[most : most + 5] == [*end, *after]
    assert 90 not in answer.ids[:most] and len(answer.ids) == 60
    assert [token.forced for token in answer.items[:-1]] == [most <= n < most + 5 for n in range(60)]
    assert guide.cut and guide.spent == most


def test_a_budget_leaves_alone_what_the_model_closes_itself_and_finishes_what_it_began():
    own = ThinkingBudget(10, (90, 91), (1,))
    for token in (5, 6, 90, 91, *range(20)):
        assert not own.forced()
        own.accept(token)
    assert (own.cut, own.spent) == (False, 2)
    begun = ThinkingBudget(3, (90, 91), (1,))
    for token in (5, 6, 90):
        begun.accept(token)
    assert (list(begun.forced()), begun.spent) == ([91, 1], 2)


def test_images_stand_in_for_the_embeddings_of_their_tokens_and_are_part_of_the_prefix():
    def ask_about(image: float) -> Request:
        rows = np.full((70, 4), image, np.float32)
        return Request(
            [5] * 100, Sampling(temperature=0), max_tokens=6, spans=[Span(10, rows, str(image).encode())]
        )

    work = scheduler(HashRunner(), prefix_bytes=1 << 20, step_tokens=64)
    one, again, other = (run(work, ask_about(image))[0] for image in (0.25, 0.25, 0.5))
    assert one.ids == again.ids != other.ids
    assert (one.last.cached_tokens, again.last.cached_tokens, other.last.cached_tokens) == (0, 100, 0)

"""A token is chosen as asked, from any logits."""

from __future__ import annotations

import numpy as np
import pytest
from whimbrel.engine.scheduling.request import Sampling
from whimbrel.engine.scheduling.sampling import NoChoice, Sampler, log_softmax, top_ids

LOGITS = np.log(np.array([0.05, 0.4, 0.1, 0.3, 0.15], np.float32))


def sampler(prompt=(), vocab: int = 5, **sampling) -> Sampler:
    return Sampler(Sampling(**sampling), np.array(prompt, np.int64), vocab)


def drawn(logits: np.ndarray, times: int = 2500, **sampling) -> np.ndarray:
    one = sampler(vocab=logits.size, seed=1, **sampling)
    return np.bincount([one.pick(logits).token for _ in range(times)], minlength=logits.size) / times


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        ({}, [0.05, 0.4, 0.1, 0.3, 0.15]),
        ({"temperature": 0.0}, [0, 1, 0, 0, 0]),
        ({"temperature": 0.5}, np.array([0.0025, 0.16, 0.01, 0.09, 0.0225]) / 0.285),
        ({"temperature": 1e-38}, [0, 1, 0, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7, 0]),
        ({"top_p": 0.71}, [0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85]),
        ({"top_p": 0.0}, [0, 1, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.8}, [0, 4 / 7, 0, 3 / 7, 0]),
        ({"min_p": 0.3}, [0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85]),
        ({"logit_bias": {1: -100, 0: np.log(2)}}, np.array([0.1, 0, 0.1, 0.3, 0.15]) / 0.65),
    ],
)  # fmt: skip
def test_tokens_come_as_often_as_their_share(sampling, expected):
    shares = drawn(LOGITS, **sampling)
    assert np.abs(shares - expected).max() < 0.035
    assert not shares[np.asarray(expected) == 0].any()


def test_a_nucleus_of_a_large_vocabulary_is_that_of_a_full_sort():
    logits = np.random.default_rng(1).normal(0, 1, 4000).astype(np.float32)
    chances = np.exp(logits.astype(np.float64))
    order = np.argsort(-chances, kind="stable")
    for top_p in (0.1, 0.5, 0.99):
        inside = set(order[: np.searchsorted(np.cumsum(chances[order]), top_p * chances.sum()) + 1].tolist())
        one = sampler(vocab=4000, seed=3, top_p=top_p)
        assert {one.pick(logits).token for _ in range(60)} <= inside


def test_penalties_count_what_was_said_and_repetition_what_was_asked_too():
    logits = np.array([2.0, 1.9, -1.0, 0.0], np.float32)
    one = sampler(vocab=4, temperature=0, frequency_penalty=0.06, presence_penalty=0.02)
    picked = []
    for _ in range(6):
        picked.append(one.pick(logits).token)
        one.saw(picked[-1])
    assert picked == [0, 0, 1, 0, 1, 0]
    assert sampler([0], vocab=4, temperature=0, repetition_penalty=1.2).pick(logits).token == 1
    negative = np.array([-1.0, -1.1, -9, -9], np.float32)
    assert sampler([0], vocab=4, temperature=0, repetition_penalty=1.2).pick(negative).token == 1


def test_equal_seeds_give_equal_tokens_and_other_seeds_others():
    logits = np.zeros(1000, np.float32)
    streams = []
    for seed in (5, 5, 6, -1):
        one = sampler(vocab=1000, seed=seed)
        streams.append([one.pick(logits).token for _ in range(20)])
    assert streams[0] == streams[1] and len({tuple(stream) for stream in streams}) == 3


@pytest.mark.parametrize(
    "logits",
    [
        [np.inf, 0, np.inf, -np.inf],
        [-np.inf, 3e38, -3e38, -np.inf],
        [-np.inf, -np.inf, 5, -np.inf],
        [-1e30] * 4,
    ],
)
@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 0.01, "top_p": 0.5}, {"temperature": 1e30, "top_k": 2}, {"min_p": 1.0}]
)
def test_extreme_logits_give_tokens_that_have_a_chance_and_log_probabilities_that_are_numbers(
    logits, sampling
):
    array = np.array(logits, np.float32)
    with np.errstate(all="raise", under="ignore"):
        one = sampler(vocab=4, seed=1, logprobs=4, **sampling)
        for _ in range(30):
            choice = one.pick(array)
            assert array[choice.token] > -np.inf
            assert np.isfinite([choice.logprob, *(chance for _, chance in choice.top)]).all()


def test_no_numbers_and_nothing_allowed_are_errors():
    with pytest.raises(NoChoice, match="NaN"):
        sampler().pick(np.array([1, np.nan, 0, 0, 0], np.float32))
    with pytest.raises(NoChoice, match="leave none"):
        sampler().pick(LOGITS, np.zeros(5, np.bool_))
    with pytest.raises(NoChoice, match="NaN"):
        sampler(logprobs=1).told(np.array([1, np.nan, 0, 0, 0], np.float32), 0)
    allowed = np.array([True, False, False, False, False])
    assert sampler(seed=1).pick(LOGITS, allowed).token == 0


def test_log_probabilities_are_the_models_own_whatever_the_filters():
    choice = sampler(temperature=0, top_k=1, logit_bias={4: 50}, logprobs=2).pick(LOGITS)
    assert choice.token == 4 and choice.logprob == pytest.approx(np.log(0.15), abs=1e-6)
    assert [token for token, _ in choice.top] == [1, 3]
    assert np.exp(log_softmax(LOGITS)).sum() == pytest.approx(1)
    assert sampler(logprobs=0).pick(LOGITS).top == ()


def test_the_largest_come_first_and_ties_go_to_the_lowest():
    assert top_ids(np.array([1, 3, 2, 3, 2, 2]), 4).tolist() == [1, 3, 2, 4]
    assert top_ids(np.array([1, 1, 1]), 5).tolist() == [0, 1, 2] and top_ids(np.array([1.0]), 0).size == 0

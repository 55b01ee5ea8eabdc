"""Calls with arguments close to those that tests give."""

from __future__ import annotations

import random

from whimbrel.app.repo.testing.inside.probing import neighbours


def test_a_text_gets_signs_and_words_of_other_texts_at_its_place():
    pool = ["1 + 2 * 3", "4 - x"]
    seen = {each for seed in range(40) for each in neighbours("2 ** 3 ** 2", random.Random(seed), pool)}
    assert {"2 ** 3 * 2", "2 + 3 ** 2", "2 ** 3 - 2", "2 ** x ** 2", "4 ** 3 ** 2"} <= seen
    assert {"", "2 ** 3 ** ", "1 + 2 * 3"} <= seen


def test_the_same_seed_gives_the_same_neighbours():
    pool = ["a-b", "c.d"]
    one, other = (neighbours("x/y z", random.Random(7), pool) for _ in range(2))
    assert one == other and "x/y z" not in one

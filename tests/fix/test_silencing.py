"""Patches that only keep an exception away, against those that correct what led to it."""

from __future__ import annotations

import pytest
from whimbrel.app.fix.silencing import silences

BEFORE = "def size(text):\n    number, _, unit = text.partition(' ')\n    return int(number) * UNITS[unit]\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("UNITS[unit]", "UNITS.get(unit, 0)"),
        ("UNITS[unit]", "(UNITS[unit] if unit in UNITS else 1)"),
        ("    return", "    if unit not in UNITS:\n        return 0\n    return"),
        ("    return", "    if unit not in UNITS:\n        raise ValueError(unit)\n    return"),
        (
            "    return int",
            "    try:\n        UNITS[unit]\n    except KeyError:\n        unit = 'b'\n    return int",
        ),
        ("int(number)", "int(number or 0)"),
    ],
)
def test_defaults_guards_and_handlers_only_avoid_an_exception(old: str, new: str):
    assert silences(BEFORE, BEFORE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("UNITS[unit]", "UNITS[unit.strip()]"),
        ("UNITS[unit]", "FACTORS[unit]"),
        ("partition(' ')", "rpartition(' ')"),
        ("int(number)", "float(number)"),
        ("    return int(number) * UNITS[unit]", "    return int(number) + UNITS[unit]"),
    ],
)
def test_other_values_names_and_operators_correct_something(old: str, new: str):
    assert not silences(BEFORE, BEFORE.replace(old, new))


def test_a_file_that_does_not_parse_is_judged_by_its_words():
    assert silences("def f(:\n    x[1]\n", "def f(:\n    try: x[1]\n    except KeyError: pass\n")
    assert not silences("def f(:\n    x[1]\n", "def f(:\n    x[0]\n")

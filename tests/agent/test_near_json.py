"""Arguments that are nearly JSON: read where they mean one thing, refused where they may mean two."""

from __future__ import annotations

import json
from typing import Any

import pytest
from whimbrel.app.agent.history import check_call
from whimbrel.app.agent.near_json import read_near_json
from whimbrel.engine.chat import ToolCallPart


@pytest.mark.parametrize(
    ("text", "value", "fault"),
    [
        ('{"path": "a.py", "lines": [1, 2,],}', {"path": "a.py", "lines": [1, 2]}, "trailing comma"),
        (
            "{'path': 'a.py', 'all': True, 'to': None}",
            {"path": "a.py", "all": True, "to": None},
            "single quotes",
        ),
        ("{'say': \"it's\"}", {"say": "it's"}, "single quotes"),
        (r"{'say': 'it\'s'}", {"say": "it's"}, "single quotes"),
        ('```json\n{"path": "a"}\n```', {"path": "a"}, "code fence"),
        ('{"path": "a"}}', {"path": "a"}, "brackets too many"),
        (r'{"pattern": "\d+\.\w"}', {"pattern": r"\d+\.\w"}, "backslash"),
        (r'{"pattern": "a\\d", "x": "é\n",}', {"pattern": r"a\d", "x": "é\n"}, "trailing comma"),
        ('{"n": -1.5e3, "m": 0,}', {"n": -1500.0, "m": 0}, "trailing comma"),
        ('{"text": "two\nlines",}', {"text": "two\nlines"}, "trailing comma"),
    ],
)
def test_what_can_mean_only_one_thing_is_read_and_its_fault_named(text: str, value: Any, fault: str) -> None:
    found = read_near_json(text)
    assert found is not None and found[0] == value and fault in found[1]


@pytest.mark.parametrize(
    "text",
    [
        '{"command": "rm -rf build',
        '{"command": "rm -rf build"',
        '{"command": "ls", "then": [1, 2}',
        "{'say': 'it's'}",
        '{"a": 1} {"b": 2}',
        '{"a": 1, "a": 2,}',
        r'{"path": "C:\new\docs"}',
        "{path: 'a'}",
        '{"a": 1 // one\n}',
        'Sure! {"a": 1}',
        '{"a": undefined}',
        '{"a": 01,}',
        '{"a": 1,,}',
        "{,}",
        "",
        "[1,]",
        "{" * 5000,
        '{"a": ' * 200 + "1,",
        '{"a": "\\',
    ],
)
def test_what_is_unfinished_or_may_mean_two_things_is_not(text: str) -> None:
    assert read_near_json(text) is None


def test_a_call_that_was_read_so_says_it_and_stays_valid_json_in_the_history() -> None:
    call = check_call(ToolCallPart(id="a", name="read", arguments="{'path': 'x',}"), truncated=False)
    assert call.arguments == {"path": "x"} == json.loads(call.part.arguments)
    assert "single quotes, a trailing comma" in call.remark and '{"path": "x"}' in call.remark


def test_what_the_output_limit_cut_is_never_completed() -> None:
    call = check_call(ToolCallPart(id="a", name="read", arguments="{'path': 'x',}"), truncated=True)
    assert call.arguments is None and "cut off" in call.problem and not call.remark


def test_arguments_nested_beyond_all_reason_are_refused_like_other_broken_ones() -> None:
    call = check_call(ToolCallPart(id="a", name="read", arguments='{"a":' * 100_000), truncated=False)
    assert call.arguments is None and "not valid JSON" in call.problem


@pytest.mark.parametrize(
    "half", ['{"text": "cut \\ud83d"}', '{"text": "cut \ud83d"}', "{'text': 'cut \\ud83d'}"]
)
def test_half_a_surrogate_pair_in_arguments_reaches_neither_tool_nor_history(half: str) -> None:
    call = check_call(ToolCallPart(id="a", name="write", arguments=half), truncated=False)
    assert json.loads(call.part.arguments) == {"text": "cut \ufffd"}
    call.part.arguments.encode()
    # A replacement character in a file is not what the model meant: it is told instead.
    assert call.arguments is None and "half of a character" in call.problem


def test_a_pair_that_arrived_in_two_pieces_is_one_character_again() -> None:
    call = check_call(
        ToolCallPart(id="a", name="write", arguments='{"text": "\ud83d\ude00"}'), truncated=False
    )
    assert call.arguments == {"text": "😀"}
    escaped = '{"text": "\\ud83d\\ude00"}'
    call = check_call(ToolCallPart(id="a", name="write", arguments=escaped), truncated=False)
    assert call.part.arguments == escaped, "what is valid stays byte for byte"

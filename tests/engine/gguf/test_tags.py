"""Tags in a model's text, wherever the pieces of the stream end."""

from __future__ import annotations

import pytest
from whimbrel.engine.gguf.tags import Piece, TagParser, read_call

CALL = '{"name": "edit", "arguments": {"text": "a </tool_call> inside \\" of it"}}'


def parse(pieces: list[str], *, thinking: bool = False) -> list[tuple[str, str]]:
    parser = TagParser(thinking=thinking)
    found: list[Piece] = [each for piece in pieces for each in parser.feed(piece)]
    joined: list[tuple[str, str]] = []
    for each in [*found, *parser.finish()]:
        if joined and joined[-1][0] == each.kind != "call":
            joined[-1] = (each.kind, joined[-1][1] + each.text)
        else:
            joined.append((each.kind, each.text))
    return joined


WHOLE = (
    f"<think>a < b\n</think>\n\nI use <b>tools</b>.\n<tool_call>{CALL}</tool_call>\n<tool_call>x</tool_call> "
)
EXPECTED = [
    ("reasoning", "a < b\n"),
    ("text", "I use <b>tools</b>.\n"),
    ("call", CALL),
    ("call", "x"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 10_000])
def test_pieces_of_any_size_give_the_same(size: int) -> None:
    assert parse([WHOLE[start : start + size] for start in range(0, len(WHOLE), size)]) == EXPECTED


def test_every_single_cut_gives_the_same() -> None:
    for cut in range(len(WHOLE)):
        assert parse([WHOLE[:cut], WHOLE[cut:]]) == EXPECTED, cut


@pytest.mark.parametrize(
    ("text", "thinking", "expected"),
    [
        ("plan</think>\nanswer", True, [("reasoning", "plan"), ("text", "answer")]),
        ("answer</think> more", False, [("text", "answer"), ("text", "more")]),
        ("<think>never ends", False, [("reasoning", "never ends")]),
        ("<think></think>  \n", False, []),
        ('<tool_call>{"name": "a", "argu', False, [("call", '{"name": "a", "argu')]),
        ("ends in <tool", False, [("text", "ends in <tool")]),
        ("2 < 3 and <think", False, [("text", "2 < 3 and <think")]),
    ],
)
def test_what_is_missing_or_too_much(text: str, thinking: bool, expected: list[tuple[str, str]]) -> None:
    found = parse(list(text), thinking=thinking)
    whole = [(kind, "".join(t for k, t in expected if k == kind)) for kind in dict(expected)]
    assert [(kind, "".join(t for k, t in found if k == kind)) for kind in dict(found)] == whole


@pytest.mark.parametrize(
    ("body", "name", "arguments"),
    [
        ('{"name": "read", "arguments": {"path": "é"}}', "read", '{"path": "é"}'),
        ('{"name": "read", "parameters": {"path": 1}}', "read", '{"path": 1}'),
        ('{"name": "read", "arguments": "{\\"path\\": 1}"}', "read", '{"path": 1}'),
        ('\n{"name": "read"}\n', "read", "{}"),
        ('{"name": "read", "arguments": {"path": "cut', "read", '{"path": "cut'),
        ("read a file", "", "read a file"),
        ('["read"]', "", '["read"]'),
    ],
)
def test_calls_are_read_and_broken_ones_are_kept_for_the_model_to_see(
    body: str, name: str, arguments: str
) -> None:
    assert read_call(body) == (name, arguments)


def test_a_long_argument_is_not_searched_again_and_again() -> None:
    parser = TagParser()
    parser.feed("<tool_call>")
    for _ in range(50_000):
        assert parser.feed("0123456789") == []
    (piece,) = parser.feed("</tool_call>")
    assert len(piece.text) == 500_000

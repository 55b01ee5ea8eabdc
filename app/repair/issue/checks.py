"""The tests that an issue may become: what each asks, and which are worth having."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from .blocks import parse_python
from .names import bound_names, free_names
from .snippets import Form, Snippet, Step

_MAX_SHOWN = 100
_MOST = 8


class Check(Enum):
    """How a test asks for what the issue expects."""

    EQUAL = "equal"
    TEXT = "text"
    """``str`` of the value."""
    REPR = "repr"
    OUTPUT = "output"
    """Everything the statements print, line by line."""
    RAISES = "raises"
    QUIET = "quiet"
    """The statement ends without the exception that it raises now; nothing more is known."""
    ASSERT = "assert"


@dataclass(frozen=True)
class Hypothesis:
    """One test that should fail on the present code."""

    check: Check
    setup: tuple[str, ...]
    target: str
    """Source of the expression, or of the statement for RAISES, QUIET and ASSERT."""
    expected: str
    """Source of the value (EQUAL), the text (TEXT, REPR, OUTPUT) or the exception class (RAISES)."""
    strength: int
    """3: what is wrong now was stated too, and seen; 2: only what should be; 1: only what must not happen."""
    reason: str
    """What the present code does and what the issue expects."""
    fails_with: str
    """Class of the exception that the test must fail with now; ``AssertionError`` for wrong values."""
    message: str = ""
    """Of that exception where it was stated."""
    line: int = 0
    snippet: Snippet | None = None
    actual: str = ""
    """``repr`` of the present value, when there is one."""
    holds: bool = False
    """The test passes now: the issue gives it as an example of what is right, beside one that fails."""
    from_session: bool = False
    """What is expected is what an interactive session shows."""


@dataclass
class Judgement:
    """What came of one snippet."""

    hypotheses: list[Hypothesis] = field(default_factory=list[Hypothesis])
    beside: list[Hypothesis] = field(default_factory=list[Hypothesis])
    """Examples of a session that show what happens, or what is right: that depends on the others."""
    remarks: list[str] = field(default_factory=list[str])


def choose(judgements: Iterable[Judgement]) -> tuple[Hypothesis, ...]:
    """The failing tests worth having, strongest first, and the holding examples beside them.

    Of several about one expression the strongest stays; what only must not happen gives way to
    anything that says what should.
    """
    everything = [each for judgement in judgements for each in judgement.hypotheses]
    failing = sorted(
        (each for each in everything if not each.holds), key=lambda each: (-each.strength, each.line)
    )
    if any(each.strength > 1 for each in failing):
        failing = [each for each in failing if each.strength > 1]
    chosen: dict[tuple[str, ...], Hypothesis] = {}
    for each in failing:
        chosen.setdefault(_about(each), each)
    snippets = {id(each.snippet) for each in chosen.values()}
    beside: dict[tuple[str, ...], Hypothesis] = {}
    for each in everything:
        key = _about(each)
        # Those of the same snippet only: there the issue shows what is right.
        if each.holds and id(each.snippet) in snippets and key not in chosen:
            beside.setdefault(key, each)
    return (*list(chosen.values())[:_MOST], *list(beside.values())[:_MOST])


def _about(each: Hypothesis) -> tuple[str, ...]:
    """What a test asks about, however it is written: its set-up and the expression."""
    tree = parse_python(each.target)
    if tree is None or not tree.body:
        return (*each.setup, each.target)
    node: ast.AST = tree.body[0]
    if isinstance(node, ast.Assert):
        node = node.test.left if isinstance(node.test, ast.Compare) else node.test
    return (*each.setup, ast.unparse(node))


def setup_of(snippet: Snippet, number: int) -> tuple[str, ...]:
    """The statements that a step depends on, in order: what binds its names, and what touches those."""
    step = snippet.steps[number]
    needed = set(free_names(step.source))
    bound_by_code = {
        name for each in snippet.steps[:number] for name in bound_names(each.source, imports=False)
    }
    kept: list[str] = []
    for each in reversed(snippet.steps[:number]):
        reads, binds = free_names(each.source), bound_names(each.source)
        star = each.source.startswith("from ") and each.source.rstrip().endswith("*")
        touches = bool(reads & needed & bound_by_code) and each.form is not Form.ASSERT
        if not (star or binds & needed or touches):
            continue
        if each.form is Form.PRINT:
            if "(" not in each.expression:
                continue
            kept.append(each.expression)
        else:
            kept.append(each.source)
        needed |= reads
    return tuple(reversed(kept))


def statement_of(step: Step) -> str:
    """A step as a statement: of a print what it prints."""
    return step.expression if step.form in (Form.VALUE, Form.PRINT) and step.expression else step.source


def holding(snippet: Snippet, number: int, check: Check, target: str, expected: str) -> Hypothesis:
    """An example that is right now and must stay so."""
    return Hypothesis(
        check, setup_of(snippet, number), target, expected, 0, "", "", snippet=snippet,
        line=snippet.steps[number].line, holds=True,
    )  # fmt: skip


def short(text: str) -> str:
    """On one line, bounded."""
    # Blanks inside a value mean something, so only line ends are joined.
    flat = re.sub(r"\s*\n\s*", " ", text.strip())
    return flat if len(flat) <= _MAX_SHOWN else flat[: _MAX_SHOWN - 3] + "..."

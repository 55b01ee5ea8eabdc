"""Compares what an issue says with what a run showed: the tests that fail for the reason it states."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from ..similarity import likeness
from .blocks import parse_python
from .checks import Check, Hypothesis, Judgement, holding, setup_of, short, statement_of
from .claims import Claim, Role
from .probe import Observation, Raised
from .reading import ErrorSeen
from .snippets import Form, Snippet, Step
from .values import literal, same_value

_OWN_MISTAKES = frozenset(
    {
        "NameError",
        "UnboundLocalError",
        "ImportError",
        "ModuleNotFoundError",
        "SyntaxError",
        "IndentationError",
    }
)
"""What a snippet that does not fit here ends with; only a stated one that arose in the project counts."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def judge_snippet(snippet: Snippet, seen: Sequence[Observation], errors: Sequence[ErrorSeen]) -> Judgement:
    """Compares what each statement showed with what the issue says about it.

    Args:
        seen: one observation per step; shorter when the run ended early.
        errors: all exceptions that the issue names.
    """
    judgement = Judgement()
    if not seen:
        judgement.remarks.append("it could not be run here")
        return judgement
    snippet = _with_shared_output(snippet, seen)
    displayed = [
        k for k, step in enumerate(snippet.steps) if step.form in (Form.VALUE, Form.PRINT) and step.expression
    ]
    telling = [k for k in displayed if k < len(seen) and not _is_nothing(snippet.steps[k], seen[k])]
    last = telling[-1] if telling else None
    for number, step in enumerate(snippet.steps[: len(seen)]):
        observation = seen[number]
        if observation.hung:
            judgement.remarks.append(f"{short(step.source)} did not come back")
            break
        if not observation.ran:
            break
        if observation.error is not None:
            _judge_error(judgement, snippet, number, observation.error, errors)
        elif step.form is Form.ASSERT:
            judgement.hypotheses.append(holding(snippet, number, Check.ASSERT, step.source, ""))
        elif observation.has_value and step.expression:
            _judge_value(judgement, snippet, number, observation, final=number == last)
        elif step.shown:
            _judge_silence(judgement, snippet, number)
    _judge_output(judgement, snippet, seen)
    if any(each.from_session for each in judgement.hypotheses):
        # One example shows what should be; so do the others, which are right already.
        judgement.hypotheses += judgement.beside
    if not any(not each.holds for each in judgement.hypotheses) and not judgement.remarks:
        judgement.remarks.append(_nothing_wrong(snippet, seen))
    return judgement


def _is_nothing(step: Step, observation: Observation) -> bool:
    """A call for its effect: a session shows nothing for None."""
    return step.form is Form.VALUE and observation.has_value and observation.repr == "None" and not step.shown


# ---------------------------------------------------------------- values


def _judge_value(
    judgement: Judgement, snippet: Snippet, number: int, seen: Observation, *, final: bool
) -> None:
    step = snippet.steps[number]
    tight = list(step.shown)
    loose = list(snippet.loose) if final else []
    actuals = [claim for claim in tight if claim.role is Role.ACTUAL]
    expecteds = [claim for claim in tight if claim.role is Role.EXPECTED]
    for claim in (each for each in tight if each.role is Role.UNKNOWN):
        matches = not claim.exception and _same(claim.value, seen)
        if matches and snippet.session and (check := _expectation(claim, step, seen))[0] is not None:
            judgement.beside.append(holding(snippet, number, check[0], step.expression, check[1]))
        # Shown without a word: what happens when it is what happens here, else what should.
        if matches or expecteds:
            actuals.append(claim)
        else:
            expecteds.append(claim)
    shown = f"{short(step.expression)} gives {short(seen.repr or seen.str or 'a long value')}"
    wrong = [claim for claim in actuals if claim.exception or not _same(claim.value, seen)]
    if wrong:
        judgement.remarks.append(f"{shown} here, not {short(wrong[0].value)} as the issue says")
        return
    confirmed = bool(actuals)
    if not expecteds and loose:
        loose_actuals = [claim for claim in loose if claim.role is Role.ACTUAL]
        agreeing = [claim for claim in loose_actuals if not claim.exception and _same(claim.value, seen)]
        if loose_actuals and not agreeing:
            judgement.remarks.append(f"{shown} here, not {short(loose_actuals[0].value)} as the issue says")
            return
        confirmed = confirmed or bool(agreeing)
        expecteds = [claim for claim in loose if claim.role is Role.EXPECTED]
        if not confirmed:
            # Without a stated wrong value only a plain one of the same type is surely about this expression.
            expecteds = [claim for claim in expecteds if _same_type(claim, seen)]
    if not expecteds:
        if confirmed:
            judgement.remarks.append(f"{shown}, and the issue does not say what it should be instead")
        return
    claim = expecteds[0]
    if claim.exception:
        name = _exception_name(claim.value)
        judgement.hypotheses.append(
            Hypothesis(
                Check.RAISES, setup_of(snippet, number), statement_of(step), name, 3 if confirmed else 2,
                f"{shown}; the issue expects {name}", "", line=claim.line, snippet=snippet, actual=seen.repr,
            )
        )  # fmt: skip
        return
    if _ADDRESS.search(claim.value) or not (seen.repr or seen.str):
        judgement.remarks.append(f"the value of {short(step.expression)} cannot be compared")
        return
    check, expected = _expectation(claim, step, seen)
    if check is None:
        judgement.remarks.append(f"what {short(step.expression)} should be is not written as a value")
        return
    if _same(claim.value, seen):
        judgement.hypotheses.append(holding(snippet, number, check, step.expression, expected))
        judgement.remarks.append(f"{shown}, as the issue expects")
        return
    judgement.hypotheses.append(
        Hypothesis(
            check, setup_of(snippet, number), step.expression, expected, 3 if confirmed else 2,
            f"{shown}; the issue expects {short(claim.value)}", "AssertionError",
            line=claim.line or step.line, snippet=snippet, actual=seen.repr,
            from_session=snippet.session and claim.role is not Role.ACTUAL and claim in step.shown,
        )
    )  # fmt: skip


def _same(value: str, seen: Observation) -> bool:
    return same_value(value, seen.repr, seen.str)


def _same_type(claim: Claim, seen: Observation) -> bool:
    if claim.exception:
        return False
    known, value = literal(claim.value)
    mine, actual = literal(seen.repr)
    numbers = (int, float)
    if not known:
        return isinstance(actual, str)
    if not mine:
        return False
    both = isinstance(value, numbers) and isinstance(actual, numbers)
    boolean = isinstance(value, bool) == isinstance(actual, bool)
    return (both and boolean) or type(value) is type(actual) or actual is None or value is None


def _expectation(claim: Claim, step: Step, seen: Observation) -> tuple[Check | None, str]:
    """How to ask for the expected value, and its source or text; (None, "") when that is no value."""
    text = claim.value.strip()
    known, value = literal(text)
    mine, actual = literal(seen.repr)
    printed = step.form is Form.PRINT
    if mine and isinstance(actual, str) and (printed or not known or not isinstance(value, str)):
        # Printed, or quoted by a sentence without quotation marks.
        if not printed and known and value is None:
            return Check.EQUAL, "None"
        if not printed and known and isinstance(value, (list, dict, tuple, set)):
            return Check.EQUAL, text
        return Check.EQUAL, repr(value if known and isinstance(value, str) and not printed else claim.value)
    if known:
        if printed and not mine and value is not None:
            return Check.TEXT, text
        if printed and isinstance(value, str):
            return Check.TEXT, text
        return Check.EQUAL, text
    if printed:
        return Check.TEXT, claim.value
    tree = parse_python(text)
    if tree is not None and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
        node = tree.body[0].value
        if isinstance(node, ast.Call) or any(isinstance(each, ast.Call) for each in ast.walk(node)):
            return Check.REPR, text
    if seen.repr.startswith("<") or text.startswith("<"):
        return Check.REPR, text
    return None, ""


# ---------------------------------------------------------------- exceptions


def _judge_error(
    judgement: Judgement, snippet: Snippet, number: int, raised: Raised, errors: Sequence[ErrorSeen]
) -> None:
    step = snippet.steps[number]
    shown = (
        f"{short(step.source)} raises {raised.name}{': ' + short(raised.message) if raised.message else ''}"
    )
    own = not raised.in_project
    if step.form is Form.ASSERT and raised.name == "AssertionError" and own:
        judgement.hypotheses.append(
            Hypothesis(
                Check.ASSERT, setup_of(snippet, number), step.source, "", 3,
                f"the issue's {short(step.source)} does not hold", "AssertionError",
                line=step.line, snippet=snippet,
            )
        )  # fmt: skip
        return
    claims = [*step.shown, *snippet.outputs, *snippet.loose]
    expected_errors = [claim for claim in claims if claim.exception and claim.role is Role.EXPECTED]
    if any(_names_it(_exception_name(claim.value), raised) for claim in expected_errors):
        judgement.remarks.append(f"{shown}, as the issue expects")
        return
    stated = [_stated(claim) for claim in claims if claim.exception and claim.role is not Role.EXPECTED]
    if not stated:
        stated = list(errors)
    match = next((each for each in stated if _is_stated(each, raised)), None)
    if match is None:
        judgement.remarks.append(f"{shown}, which the issue does not say")
        return
    if own and raised.name in _OWN_MISTAKES:
        judgement.remarks.append(f"{shown}: the snippet itself does not fit here")
        return
    if own and match.message and not _similar(match.message, raised.message):
        judgement.remarks.append(f"{shown}, which is not what the issue says")
        return
    plain = Hypothesis(
        Check.QUIET, setup_of(snippet, number), statement_of(step), "", 1, shown,
        fails_with=raised.name, message=raised.message, line=step.line, snippet=snippet,
    )  # fmt: skip
    if step.form is Form.ASSERT:
        plain = replace(plain, check=Check.ASSERT, target=step.source, strength=3)
    elif expected_errors:
        name = _exception_name(expected_errors[0].value)
        reason = f"{shown}; the issue expects {name}"
        plain = replace(plain, check=Check.RAISES, expected=name, strength=3, reason=reason)
    elif (value := _expected_value(step, snippet)) is not None and step.expression:
        known, _ = literal(value.value)
        unknown = Check.TEXT if step.form is Form.PRINT else Check.REPR
        plain = replace(
            plain, check=Check.EQUAL if known else unknown, target=step.expression, expected=value.value,
            strength=3, reason=f"{shown}; the issue expects {short(value.value)}",
        )  # fmt: skip
    judgement.hypotheses.append(plain)


def _expected_value(step: Step, snippet: Snippet) -> Claim | None:
    """What a statement that raises now should give, where the issue says that."""
    claims = [*step.shown, *(snippet.loose if step is snippet.steps[-1] else ()), *snippet.outputs]
    for claim in claims:
        if claim.exception or claim.role is not Role.EXPECTED:
            continue
        known, _ = literal(claim.value)
        call = parse_python(claim.value)
        if known or step.form is Form.PRINT or (call is not None and "(" in claim.value):
            return claim
    return None


def _stated(claim: Claim) -> ErrorSeen:
    name, _, message = claim.value.partition(":")
    if "(" in name:
        name, _, message = claim.value.partition("(")
        message = message.rstrip(")")
    return ErrorSeen(name.strip(), message.strip().strip("'\""))


def _exception_name(value: str) -> str:
    return re.split(r"[(:]", value.strip(), maxsplit=1)[0].strip()


def _names_it(name: str, raised: Raised) -> bool:
    return name.rpartition(".")[2] == raised.name


def _is_stated(stated: ErrorSeen, raised: Raised) -> bool:
    return _names_it(stated.exception, raised) and (
        not stated.message or raised.in_project or _similar(stated.message, raised.message)
    )


def _similar(one: str, other: str) -> bool:
    def flat(text: str) -> str:
        return re.sub(r"\d+", "0", " ".join(text.lower().split())).strip(" .'\"`")

    first, second = flat(one), flat(other)
    if not first or not second:
        return first == second
    return first in second or second in first or likeness(first[:200], second[:200]) > 0.75


# ---------------------------------------------------------------- whole output


def _with_shared_output(snippet: Snippet, seen: Sequence[Observation]) -> Snippet:
    """Gives each print the lines of the shown output that are its own, where the line counts agree."""
    counts = [observation.stdout.count("\n") for observation in seen]
    outputs: list[Claim] = []
    steps = list(snippet.steps)
    for claim in snippet.outputs:
        lines = claim.value.split("\n")
        plain = all(step.form is Form.PRINT for step, count in zip(steps, counts, strict=False) if count)
        if claim.exception or not plain or len(lines) != sum(counts) or len(seen) < len(steps):
            outputs.append(claim)
            continue
        at = 0
        for number, count in enumerate(counts):
            if count:
                part = replace(claim, value="\n".join(lines[at : at + count]))
                steps[number] = replace(steps[number], shown=(*steps[number].shown, part))
                at += count
    return replace(snippet, steps=tuple(steps), outputs=tuple(outputs))


def _judge_silence(judgement: Judgement, snippet: Snippet, number: int) -> None:
    """A statement without a value (an assignment) that should have raised something."""
    step = snippet.steps[number]
    for claim in step.shown:
        if claim.exception and claim.role is Role.EXPECTED:
            name = _exception_name(claim.value)
            judgement.hypotheses.append(
                Hypothesis(
                    Check.RAISES, setup_of(snippet, number), step.source, name, 2,
                    f"{short(step.source)} raises nothing; the issue expects {name}", "",
                    line=step.line, snippet=snippet,
                )
            )  # fmt: skip
            return
        if claim.exception:
            name = _exception_name(claim.value)
            judgement.remarks.append(
                f"{short(step.source)} raises nothing here, not {name} as the issue says"
            )


def _judge_output(judgement: Judgement, snippet: Snippet, seen: Sequence[Observation]) -> None:
    shown = [claim for claim in snippet.outputs if not claim.exception]
    if any(claim.exception for claim in snippet.outputs) and not any(each.error for each in seen):
        ending = next(claim for claim in snippet.outputs if claim.exception)
        if ending.role is not Role.EXPECTED:
            name = _exception_name(ending.value)
            judgement.remarks.append(f"it does not raise {name} here")
            return
    if not shown or any(each.error or not each.ran for each in seen) or len(seen) < len(snippet.steps):
        return
    printed = _lines("".join(each.stdout for each in seen))
    if not printed:
        return
    actual = [claim for claim in shown if claim.role is Role.ACTUAL]
    unknown = [claim for claim in shown if claim.role is Role.UNKNOWN]
    expected = [claim for claim in shown if claim.role is Role.EXPECTED]
    confirmed = any(_lines(claim.value) == printed for claim in (*actual, *unknown))
    if actual and not confirmed:
        judgement.remarks.append("it does not print here what the issue says it prints")
        return
    if not expected:
        expected = [claim for claim in unknown if _lines(claim.value) != printed]
    if not expected or _lines(expected[0].value) == printed or _ADDRESS.search(expected[0].value):
        return
    judgement.hypotheses.append(
        Hypothesis(
            Check.OUTPUT, (), snippet.source, "\n".join(_lines(expected[0].value)), 3 if confirmed else 2,
            f"the snippet prints {short(' / '.join(printed))}; the issue expects"
            f" {short(' / '.join(_lines(expected[0].value)))}",
            "AssertionError", line=expected[0].line, snippet=snippet,
        )
    )  # fmt: skip


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    return lines if any(lines) else []


def _nothing_wrong(snippet: Snippet, seen: Sequence[Observation]) -> str:
    says = any(step.shown for step in snippet.steps) or snippet.outputs or snippet.loose
    if not says:
        return "it runs, and the issue does not say what it should give"
    return "it runs and shows nothing that the issue calls wrong"

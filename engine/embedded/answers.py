"""The final texts of the embedded policy: two sentences, and nothing the evidence does not show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .observed import TestsSeen, listed


def _one_line(text: str, limit: int = 300) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shown(ids: tuple[str, ...], limit: int = 3) -> str:
    rest = len(ids) - limit
    return ", ".join(ids[:limit]) + (f" and {rest} more" if rest > 0 else "")


def missing_tool(name: str) -> str:
    return f"Not fixed: the tool {name} is not available in this run, and I cannot repair without it."


def no_result(name: str) -> str:
    return f"Not fixed: the tool {name} was called and never gave a result. Nothing more was tried."


def tests_did_not_run(reason: str) -> str:
    return (
        "Not fixed: the tests could not be run, so there is no evidence to work from. "
        f"The reason given was: {_one_line(reason)}"
    )


def only_flaky(tests: TestsSeen) -> str:
    return (
        f"Nothing was changed: the only failures are flaky ({_shown(tests.flaky)}). "
        "They pass and fail on the same code, so no edit could be shown to fix them."
    )


def no_tests(issue: bool) -> str:
    if issue:
        return (
            "Not reproduced: no tests were found, so no test shows what the issue describes. "
            "Nothing was changed; a failing test would give me something to work from."
        )
    return "Nothing to fix: no tests were found and no issue was given."


def incomplete(tests: TestsSeen) -> str:
    return (
        f"Not reproduced: the test run was cut short after {_number(tests.total, 'test')} without a failure. "
        "Nothing was changed, because the missing part may hold the failing test."
    )


def all_pass(tests: TestsSeen, issue: bool) -> str:
    if issue:
        return (
            f"Not reproduced: no failing test shows what the issue describes "
            f"({_number(tests.total, 'test')} ran, none failed). "
            "Nothing was changed; a failing test would give me something to work from."
        )
    return f"Nothing to fix: {_number(tests.total, 'test')} ran and none failed."


def repair_failed(reason: str) -> str:
    return f"Not fixed: the search for a repair could not be done. The reason given was: {_one_line(reason)}"


def _tried(data: Mapping[str, Any]) -> str:
    tried = int(data.get("candidates_tried") or 0)
    limit = data.get("limit")
    ending = f"the search ended at its {limit} limit" if limit else "the search space was exhausted"
    return f"{_number(tried, 'candidate edit')} tried; {ending}"


def unrepaired(data: Mapping[str, Any]) -> str:
    """For the statuses not_fixed, ambiguous and interrupted."""
    if data.get("status") == "ambiguous":
        patches = [cast("dict[str, Any]", each) for each in listed(data, "patches")]
        patches += [cast("dict[str, Any]", each) for each in listed(data, "alternatives")]
        places = tuple(f"{each['path']}:{each['line']} ({each['family']})" for each in patches)
        if len(patches) == 1:
            return (
                f"Not fixed: one edit makes every test pass ({_shown(places)}), but edits of its kind do so "
                "by chance too often to be believed. Nothing was applied; one more test for the intended "
                "behaviour would decide."
            )
        return (
            f"Not fixed: {_number(len(patches), 'different edit')} make every test pass and the tests cannot "
            f"tell them apart ({_shown(places)}). "
            "Nothing was applied; one more test for the intended behaviour would decide."
        )
    if data.get("status") == "interrupted":
        return f"Not fixed: the search was interrupted ({_tried(data)}). Nothing was applied."
    near = listed(data, "patches")
    close = (
        " The best attempt makes the failing tests pass but is not verified; see the attempts."
        if near
        else " Nothing was applied; the bug may need an edit of a kind I do not know."
    )
    return f"Not fixed: no edit made the failing tests pass without breaking others ({_tried(data)}).{close}"


def _explanation(data: Mapping[str, Any]) -> str:
    patches = listed(data, "patches")
    if not patches:
        return "A patch was applied."
    return str(cast("dict[str, Any]", patches[0]).get("explanation") or "A patch was applied.")


def fixed(data: Mapping[str, Any], after: TestsSeen | None) -> str:
    """The two-sentence explanation, and what the last run showed when it was not all green."""
    text = _explanation(data)
    if after is None:
        return text + " The whole suite was not run again here, because no tool for it is available."
    if after.bad:
        left = "still fails" if len(after.bad) == 1 else "still fail"
        return f"{text} {_number(len(after.bad), 'test')} {left}: {_shown(after.bad)}."
    return text


def fixed_unconfirmed(data: Mapping[str, Any], reason: str) -> str:
    return f"{_explanation(data)} The closing test run could not be done: {_one_line(reason)}"

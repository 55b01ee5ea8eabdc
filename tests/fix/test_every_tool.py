"""The whole list of tools in a run without a person, and parallel calls among them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.mock_server import MockServer, Request, arguments_are_json, completion, every_call_answered

from .conftest import Ran, Repo

WRONG, RIGHT = "if count < most:", "if count > most:"
STEPS: list[list[tuple[str, dict[str, Any]]]] = [
    [("run_tests", {}), ("locate", {})],
    [("read", {"path": "tally.py"}), ("search", {"pattern": "most"}), ("read", {"path": "."})],
    [("edit", {"path": "tally.py", "old": WRONG, "new": WRONG.replace("count", "counts")})],
    [("bash", {"command": "git checkout -q tally.py && sleep 300", "background": True})],
    [("bash", {"command": "echo done; printf '\\033[31mred\\0'"}), ("repair", {})],
    [("no_such_tool", {}), ("read", {"path": "../../etc/passwd"}), ("edit", {})],
]


@pytest.mark.parametrize("sandbox", ["host", pytest.param("bwrap", marks=pytest.mark.bwrap)])
def test_every_tool_works_without_a_person_in_every_sandbox_named_here(
    buggy: Repo, fix: Callable[..., Ran], sandbox: str
):
    def script(request: Request):
        number = sum(message["role"] == "assistant" for message in request.messages)
        if number >= len(STEPS):
            return completion(text="Done.")
        return completion(calls=[(f"c{number}-{n}", *call) for n, call in enumerate(STEPS[number])])

    before = buggy.fingerprint()
    with MockServer(script, validators=[every_call_answered, arguments_are_json]) as server:
        ran = fix(
            buggy, "--python", sys.executable, "--json", "--model", f"vllm:m@{server.url}", sandbox=sandbox
        )
    assert ran.code == 0, ran.out + ran.err
    assert RIGHT in ran.result["patch"]
    ends = [event["data"] for event in ran.events if event.get("data", {}).get("kind") == "tool_finished"]
    assert len(ends) == sum(map(len, STEPS))
    worked = {end["name"] for end in ends if not end["is_error"]}
    assert worked == {"run_tests", "locate", "read", "search", "edit", "bash", "repair"}
    assert [end["name"] for end in ends[-3:] if end["is_error"]] == ["no_such_tool", "read", "edit"]
    assert buggy.fingerprint() == before

"""The whole list of tools in a run without a person, and parallel calls among them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from whimbrel.app.tools.registry import default_tools

from tests.mock_server import MockServer, Request, arguments_are_json, completion, every_call_answered

from .conftest import Ran, Repo

WRONG, RIGHT = "if count < most:", "if count > most:"
STEPS: list[list[tuple[str, dict[str, Any]]]] = [
    [("run_tests", {}), ("locate", {})],
    [("read", {"path": "tally.py"}), ("search", {"pattern": "most"}), ("read", {"path": "."})],
    [("edit", {"path": "tally.py", "old": WRONG, "new": WRONG.replace("count", "counts")})],
    [
        ("list", {}),
        ("glob", {"pattern": "**/*.py"}),
        ("git", {"action": "log"}),
        ("view_image", {"path": "p.png"}),
    ],
    [
        ("symbols", {"action": "definition", "name": "tally"}),
        ("git", {"action": "blame", "path": "tally.py"}),
    ],
    [
        ("todo", {"items": [{"text": "repair it"}]}),
        ("write", {"path": "notes/a.txt", "content": "one\ntwo\n"}),
    ],
    [
        (
            "multi_edit",
            {"path": "notes/a.txt", "edits": [{"old": "one", "new": "1"}, {"old": "two", "new": "2"}]},
        )
    ],
    [("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: notes/a.txt\n*** End Patch"})],
    [("sub_agent", {"task": "look into the corner"}), ("bash", {"action": "list"})],
    [("bash", {"command": "git checkout -q tally.py && sleep 300", "background": True})],
    [("bash", {"command": "echo done; printf '\\033[31mred\\0'"}), ("repair", {})],
    [("no_such_tool", {}), ("read", {"path": "../../etc/passwd"}), ("edit", {})],
]


@pytest.mark.parametrize("sandbox", ["host", pytest.param("bwrap", marks=pytest.mark.bwrap)])
def test_every_tool_works_without_a_person_in_every_sandbox_named_here(
    buggy: Repo, fix: Callable[..., Ran], sandbox: str
):
    def script(request: Request):
        if "look into the corner" in str(request.messages[1]["content"]):
            if request.messages[-1]["role"] == "tool":
                return completion(text="The corner is empty.")
            return completion(calls=[("inner", "read", {"path": "tally.py"})])
        number = sum(message["role"] == "assistant" for message in request.messages)
        if number >= len(STEPS):
            return completion(text="Done.")
        return completion(calls=[(f"c{number}-{n}", *call) for n, call in enumerate(STEPS[number])])

    Image.new("RGB", (8, 8), "red").save(buggy.root / "p.png")
    buggy.commit("a picture")
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
    assert worked == {tool.name for tool in default_tools()}
    assert [end["name"] for end in ends[-3:] if end["is_error"]] == ["no_such_tool", "read", "edit"]
    assert buggy.fingerprint() == before

"""Settings may give kinds of steps a model and a tier of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tests.mock_server import MockServer, Request, arguments_are_json, completion, every_call_answered

from .conftest import Ran, Repo

STEPS = [
    [("run_tests", {})],
    [("edit", {"path": "tally.py", "old": "if count < most:", "new": "if count > most:"})],
    [("run_tests", {})],
    [],
]


def script(request: Request):
    number = sum(message["role"] == "assistant" for message in request.messages)
    calls = [(f"c{number}", name, arguments) for name, arguments in STEPS[number]]
    return completion(text="" if calls else "Repaired.", calls=calls, reasoning="hm")


def test_planning_patching_and_summing_up_go_to_their_own_models(
    buggy: Repo, fix: Callable[..., Ran], tmp_path: Path
):
    strict = [every_call_answered, arguments_are_json]
    with (
        MockServer(script, validators=strict) as main,
        MockServer(script, validators=strict) as patcher,
        MockServer(script, validators=strict) as small,
    ):
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "config.toml").write_text(
            f'[model.tasks.patching]\nname = "{patcher.model("b")}"\neffort = "max"\n'
            f'[model.tasks.routing]\nname = "{small.model("c")}"\n'
        )
        ran = fix(
            buggy, "--python", sys.executable, "--model", main.model("a"),
            WHIMBREL_CONFIG_DIR=str(tmp_path / "config"),
        )  # fmt: skip
        assert ran.code == 0, ran.out + ran.err
        assert [len(each.requests) for each in (main, patcher, small)] == [2, 1, 1]
    tiers = [entry["tier"] for entry in ran.result["tiers"]]
    assert tiers == ["high", "high", "max", "low"]
    # What one model thought is not put into the mouth of another.
    answers = [message for message in small.requests[0].messages if message["role"] == "assistant"]
    assert len(answers) == 3 and not any("reasoning_content" in message for message in answers)

"""The whole command with a scripted model: tiers per step in the requests, the events and the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from tests.mock_server import MockServer, completion, reasoning_replayed

from .conftest import Ran, Repo

WRONG = {"path": "tally.py", "old": "if count < most:", "new": "if count <= most:"}
RIGHT = {"path": "tally.py", "old": "if count <= most:", "new": "if count > most:"}
TESTED = ("t", "run_tests", {})
SCRIPT = [
    completion(reasoning="first see it", calls=[TESTED]),
    completion(reasoning="", calls=[("r", "read", {"path": "tally.py"})]),
    completion(reasoning="a guess", calls=[("e", "edit", WRONG), ("t2", "run_tests", {})]),
    completion(reasoning="the other way", calls=[("e2", "edit", RIGHT), ("t3", "run_tests", {})]),
    completion(reasoning="done", text="The comparison was the wrong way round."),
]


def test_a_failed_attempt_raises_the_tier_and_a_success_lowers_it(buggy: Repo, fix: Callable[..., Ran]):
    listed = {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 65_536}]}}
    rules = [reasoning_replayed("reasoning_content")]
    with MockServer(SCRIPT, validators=rules, documents=listed) as server:
        ran = fix(buggy, "--python", sys.executable, "--json", "--model", f"vllm:m@{server.url}")
    assert (ran.code, ran.result["status"]) == (0, "fixed"), ran.out + ran.err
    assert server.looked_at == ["/v1/models"]
    asked = [request.body["reasoning_effort"] for request in server.requests]
    assert asked == ["high", "high", "high", "max", "low"]
    assert [request.body["thinking_budget"] for request in server.requests] == asked
    tiers = ran.result["tiers"]
    assert [(one["step"], one["tier"]) for one in tiers] == list(enumerate(asked, start=1))
    assert [one["reason"] for one in tiers][::3] == ["planning", "retry after 1 failed attempt"]
    assert ran.result["effort"] == "auto"
    steps = [event["data"] for event in ran.events if event.get("data", {}).get("kind") == "step_started"]
    assert [(step["effort"], step["reason"]) for step in steps] == [
        (one["tier"], one["reason"]) for one in tiers
    ]


def test_a_pinned_tier_and_a_cost_limit_hold(buggy: Repo, fix: Callable[..., Ran]):
    def usage(_: object):
        return completion(calls=[TESTED], usage=(9_000, 1_000))

    with MockServer(usage) as server:
        ran = fix(
            buggy, "--python", sys.executable, "--effort", "max", "--max-cost", "2.5",
            "--model", f"sglang:m@{server.url}", WHIMBREL_PRICES="100,100",
        )  # fmt: skip
    assert (ran.code, ran.result["status"]) == (6, "budget"), ran.out + ran.err
    assert "cost $3.00 of $2.50" in ran.result["message"]
    assert ran.result["usage"]["cost_usd"] == 3.0
    assert {(one["tier"], one["reason"]) for one in ran.result["tiers"]} == {("max", "chosen by the person")}
    assert {json.dumps(request.body["reasoning_effort"]) for request in server.requests} == {'"max"'}

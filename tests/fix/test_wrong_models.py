"""Servers that never end, never answer or are something else: the run ends with the right code and one line."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import pytest

from tests.mock_server import MockServer, Pause, Reply, Request, chunk, completion

from .conftest import Ran, Repo

KEY = "sk-canary-in-a-run-1"


def endless(_: Request) -> Reply:
    return Reply(pieces=_Pieces(lambda n: chunk({"content": f"thought {n} leads to {n * n}; " * 50})))


def the_same(_: Request) -> Reply:
    return Reply(pieces=_Pieces(lambda n: chunk({"reasoning": "let me think about that. "})))


def silent(_: Request) -> Reply:
    return Reply(pieces=[Pause(30.0)])


def page(_: Request) -> Reply:
    body = b"<!doctype html><title>Sign in</title>"
    return Reply(pieces=[body], headers={"content-type": "text/html"})


def elsewhere(_: Request) -> Reply:
    return Reply(status=307, headers={"location": "http://127.0.0.1:9/v1/chat/completions"})


def thinking_only(_: Request) -> Reply:
    return completion(reasoning="hm", text="")


class _Pieces:
    """Pieces without end."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        self._make = make

    def __iter__(self):
        return map(self._make, itertools.count())


@pytest.mark.parametrize(
    ("server", "code", "status", "said"),
    [
        (endless, 6, "budget", "characters and goes on"),
        (silent, 6, "budget", "time limit of the run is over while the model had not begun to answer"),
        (the_same, 7, "loop", "repeats the same thinking"),
        (page, 8, "model_error", "a web page came instead of an answer: Sign in"),
        (elsewhere, 8, "model_error", "redirects to http://127.0.0.1:9/"),
        (thinking_only, 8, "model_error", "no answer"),
    ],
)
def test_each_ends_with_its_code_one_line_and_nothing_touched(
    buggy: Repo,
    fix: Callable[..., Ran],
    server: Callable[[Request], Reply],
    code: int,
    status: str,
    said: str,
):
    before = buggy.fingerprint()
    limit = "12s" if server is silent else "200s"
    with MockServer(server) as running:
        ran = fix(
            buggy, "--python", sys.executable, "--max-time", limit, "--model", f"vllm:m@{running.url}",
            WHIMBREL_API_KEY=KEY,
        )  # fmt: skip
    assert (ran.code, ran.result["status"]) == (code, status), ran.out + ran.err
    assert said in ran.result["message"] and "\n" not in ran.result["message"]
    everything = ran.out + ran.err + (ran.output / "result.json").read_text()
    assert "Traceback" not in everything and KEY not in everything
    assert buggy.fingerprint() == before

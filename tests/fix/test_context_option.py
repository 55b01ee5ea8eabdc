"""`fix-issue --context`: the model sees the repository in advance, and the result says what it saw."""

from __future__ import annotations

from collections.abc import Callable

from tests.mock_server import MockServer, Request, completion

from .conftest import Ran, Repo


def test_a_remote_model_gets_the_source_in_its_first_message_and_the_result_says_so(
    buggy: Repo, fix: Callable[..., Ran]
) -> None:
    buggy.write(**{"notes/mine.py": "CANARY = 1\n", ".gitignore": "notes/\n"})

    def answer(request: Request):
        if len(request.messages) == 2:
            edit = {"path": "tally.py", "old": "if count < most:", "new": "if count > most:"}
            return completion(calls=[("c1", "edit", edit)])
        return completion(text="The comparison was the wrong way round.")

    with MockServer(answer) as server:
        ran = fix(buggy, "--model", server.model(), "--json", "--context", "whole-repo")
    assert ran.code == 0, ran.result["message"]
    opening = server.requests[0].messages[1]["content"]
    assert "<<<FILE tally.py " in opening and "def most_common(words):" in opening
    assert opening.index("def most_common") < opening.index("These tests must pass")
    assert "CANARY" not in str(server.requests[0].body)
    context = ran.result["context"]
    assert (context["asked"], context["mode"], context["files"], context["left_out"]) == (
        "whole-repo",
        "whole-repo",
        2,
        0,
    )
    assert context["compactions"] == 0 and context["tokens"] > 100
    told = [event for event in ran.events if event.get("data", {}).get("kind") == "context_loaded"]
    assert len(told) == 1 and told[0]["data"]["files"] == ["tally.py", "test_tally.py"]

"""A conversation that goes on: what the model gets again, and which files it finds."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.sessions import SessionStore

from tests.fix.conftest import WHIMBREL, Ran, Repo
from tests.mock_server import completion, reasoning_replayed

from .conftest import CALC, edits, options, server, wait_for

Talk = Callable[..., Ran]
Whimbrel = Callable[..., subprocess.CompletedProcess[str]]


def shows(*texts: str) -> Any:
    """A model that reads calc.py and then answers; ``texts`` are the answers, one a turn."""
    replies: list[Any] = []
    for number, text in enumerate(texts):
        replies += [
            completion(calls=[(f"r{number}", "read", {"path": "calc.py"})], reasoning=""),
            completion(text=text),
        ]
    return replies


def read_again(requests: list[Any]) -> str:
    """What the last tool result of the last request says."""
    return str([message for message in requests[-1].messages if message["role"] == "tool"][-1]["content"])


def first_change(talk: Talk, calc: Repo, *more: str) -> tuple[Ran, list[dict[str, Any]]]:
    script = [
        edits("calc.py", "a - b", "a + b", reasoning="It must be a plus."),
        completion(text="Changed.", reasoning=""),
    ]
    with server(script) as model:
        ran = talk(calc, "make add add", "--model", model.model("one"), *more)
        assert ran.code == 0, ran.err
        return ran, model.requests[-1].messages


def test_a_continued_session_sends_the_same_history_with_its_thinking_and_finds_its_files(
    calc: Repo, talk: Talk
):
    _, before = first_change(talk, calc)
    with server(shows("Still there."), reasoning_replayed("reasoning_content")) as model:
        # The same model by name: the address of a server is no part of what was said.
        ran = talk(calc, "look again", "--continue", "--model", model.model("one"))
        assert ran.code == 0, ran.err
        sent = model.requests[0].messages
        assert json.dumps(sent[: len(before)]) == json.dumps(before), "byte for byte what was sent before"
        assert [message["role"] for message in sent[len(before) :]] == ["assistant", "user"]
        assert sent[-1]["content"] == "look again"
        assert "return a + b" in read_again(model.requests)
    assert ran.result["continued"] and not ran.result["moved_on"]
    assert "+    return a + b" in ran.result["patch"], "the patch holds all turns"


def test_a_session_that_somebody_writes_is_left_alone(calc: Repo, talk: Talk, home: dict[str, str]):
    ran, _ = first_change(talk, calc)
    store = SessionStore.open(Path(home["WHIMBREL_STATE_DIR"]))
    with store.reopen(ran.result["session_id"]), server([]) as model:
        second = talk(calc, "me too", "--continue", "--model", model.model("one"))
        assert (second.code, model.requests) == (2, []) and "being written by another process" in second.err


def test_another_model_gets_the_words_without_the_first_ones_thinking(calc: Repo, talk: Talk):
    ran, _ = first_change(talk, calc)
    with server([completion(text="I see.")]) as model:
        ran = talk(calc, "and now?", "--resume", ran.result["session_id"][:-2], "--model", model.model("two"))
        sent = model.requests[0].messages
    assert ran.code == 0, ran.err
    assert "It must be a plus." not in json.dumps(sent) and "Changed." in json.dumps(sent)
    assert all("reasoning_content" not in message for message in sent)


def test_after_apply_the_files_are_where_they_are_and_after_undo_they_come_back(
    calc: Repo, talk: Talk, whimbrel: Whimbrel
):
    first_change(talk, calc, "--apply")
    with server([*shows("Applied."), *shows("Undone.")]) as model:
        ran = talk(calc, "look", "--continue", "--model", model.model("one"))
        assert ran.code == 0 and not ran.result["moved_on"], ran.err
        assert ran.result["files"] == [], "nothing differs from the person's files"
        assert whimbrel("undo", "--repo", str(calc.root)).returncode == 0
        ran = talk(calc, "look", "--continue", "--model", model.model("one"))
        assert "return a + b" in read_again(model.requests)
        assert [file["path"] for file in ran.result["files"]] == ["calc.py"], (
            "the person took it back; here it stays"
        )


def test_when_the_repository_moved_on_the_changes_go_on_top_and_the_model_and_the_person_are_told(
    calc: Repo, talk: Talk
):
    first_change(talk, calc)
    calc.write(**{"calc.py": "def mul(a, b):\n    return a * b\n\n\n" + CALC}).commit("more")
    with server(shows("Both are there.")) as model:
        ran = talk(calc, "look", "--continue", "--model", model.model("one"))
        assert ran.code == 0, ran.err
        assert "return a + b" in read_again(model.requests) and "def mul" in read_again(model.requests)
        assert "was changed outside this conversation" in model.requests[0].messages[-1]["content"]
    assert ran.result["moved_on"] and any("was changed outside" in note for note in ran.result["notes"])


def test_changes_that_no_longer_fit_stop_the_turn_with_two_ways_on(calc: Repo, talk: Talk):
    first_change(talk, calc)
    start = calc.git("rev-parse", "HEAD").strip()
    calc.write(**{"calc.py": "def add(a, b):\n    return a * b\n"}).commit("other")
    with server(lambda _: completion(text="Hm.")) as model:
        ran = talk(calc, "look", "--continue", "--model", model.model("one"))
        assert (ran.code, ran.result["status"]) == (4, "patch_conflict"), ran.err
        assert (
            model.requests == []
            and start in ran.result["hint"]
            and "--files repository" in ran.result["hint"]
        )
        assert talk(calc, "x", "--continue", "--commit", start, "--model", model.model("one")).code == 0
        assert talk(calc, "x", "--continue", "--files", "repository", "--model", model.model("one")).code == 0


def test_rewinding_takes_files_words_or_both_back_and_can_be_taken_back(
    calc: Repo, talk: Talk, whimbrel: Whimbrel
):
    ran, _ = first_change(talk, calc)
    session = ran.result["session_id"]
    with server([edits("calc.py", "a + b", "b + a", call="c9"), completion(text="Turned.")]) as model:
        assert talk(calc, "turn it", "--resume", session, "--model", model.model("one")).code == 0
    listed = whimbrel("session", "turns", session).stdout.splitlines()
    said = [line for line in listed if line.split()[1] != "files"]
    assert [line.split()[1] for line in said] == ["user", "assistant", "assistant"] * 2
    first_end, turned = int(said[2].split()[0]), int(said[5].split()[0])

    def goes_on(*rewind: str) -> tuple[str, str]:
        done = whimbrel("session", "rewind", session, *rewind)
        assert done.returncode == 0, done.stderr
        with server(shows("Looked.")) as model:
            after = talk(calc, "look", "--resume", session, "--model", model.model("one"))
            assert after.code == 0, after.err
            return read_again(model.requests), json.dumps(model.requests[0].messages)

    files, words = goes_on("--to", str(first_end), "--files")
    assert "return a + b" in files and "turn it" in words
    files, words = goes_on("--to", str(turned), "--both")
    assert "return b + a" in files and "turn it" in words
    files, words = goes_on("--to", str(first_end))
    assert "return a + b" in files and "turn it" not in words and "make add add" in words
    files, words = goes_on("--to", "2", "--files")
    assert "return a - b" in files, "before the first turn had ended the files were the repository's"
    assert whimbrel("session", "rewind", session, "--to", "9999").returncode == 2


def test_a_killed_turn_goes_on_with_the_files_of_its_last_change(
    calc: Repo, talk: Talk, home: dict[str, str], tmp_path: Path
):
    reached, release = threading.Event(), threading.Event()

    def script(request: Any) -> Any:
        if len(request.messages) == 2:
            return edits("calc.py", "a - b", "a + b")
        reached.set()
        release.wait(60)
        return completion(text="too late")

    with server(script) as model:
        command = [
            *WHIMBREL,
            *options(calc, tmp_path / "killed"),
            "make add add",
            "--model",
            model.model("one"),
        ]
        process = subprocess.Popen(command, env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert reached.wait(60)
        database = Path(home["WHIMBREL_STATE_DIR"]) / "sessions/sessions.db"
        wait_for(lambda: recorded(database))
        process.kill()
        process.wait()
        release.set()
    with server(shows("On.")) as model:
        ran = talk(calc, "go on", "--continue", "--model", model.model("one"))
        assert ran.code == 0, ran.err
        assert "return a + b" in read_again(model.requests)
        said = model.requests[0].messages[-1]["content"]
        assert "was killed: what it changed in files is kept as it was recorded last" in said


def recorded(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT 1 FROM events WHERE kind = 'files'").fetchone() is not None


def test_a_fork_goes_its_own_way_from_any_message(calc: Repo, talk: Talk, whimbrel: Whimbrel):
    ran, _ = first_change(talk, calc)
    session = ran.result["session_id"]
    turns = whimbrel("session", "turns", session).stdout.splitlines()
    at_call = int(turns[1].split()[0])
    with server(shows("Forked.")) as model:
        forked = talk(calc, "else", "--fork", f"{session}@{at_call}", "--model", model.model("one"))
        sent = model.requests[0].messages
    assert forked.code == 0, forked.err
    assert forked.result["session_id"] != session
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "user"]
    assert "interrupted or taken back" in sent[3]["content"], "the open call has an answer"
    assert whimbrel("session", "turns", session).stdout.splitlines() == turns, "the first one is as it was"
    assert whimbrel("session", "delete", session).returncode == 0
    with server(shows("Alone.")) as model:
        assert (
            talk(calc, "on", "--resume", forked.result["session_id"], "--model", model.model("one")).code == 0
        )


def test_a_repair_by_fix_issue_can_be_talked_about(calc: Repo, talk: Talk, whimbrel: Whimbrel):
    common = ["--repo", str(calc.root), "--sandbox", "host", "--no-build", "--python", sys.executable]
    with server([edits("calc.py", "a - b", "a + b"), completion(text="Fixed.")]) as model:
        fixed = whimbrel("fix-issue", *common, "--model", model.model("one"))
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    with server(shows("It was the sign.")) as model:
        ran = talk(calc, "what was it?", "--continue", "--model", model.model("one"))
        assert ran.code == 0, ran.err
        assert "return a + b" in read_again(model.requests)


def test_a_state_with_a_secret_is_not_kept_and_that_is_said(calc: Repo, talk: Talk):
    with server([edits("calc.py", "a - b", "'hunter2-canary'"), completion(text="Done.")]) as model:
        ran = talk(calc, "x", "--model", model.model("one"), MY_TOKEN="hunter2-canary")
    assert ran.code == 0 and "hold the value of a secret" in ran.err
    with server(lambda _: completion(text="On.")) as model:
        ran = talk(calc, "y", "--continue", "--model", model.model("one"))
        assert ran.code == 4 and "hold the value of a secret" in ran.err
        assert talk(calc, "y", "--continue", "--files", "repository", "--model", model.model("one")).code == 0


@pytest.mark.parametrize("damage", ["message", "files"])
def test_a_damaged_record_costs_itself_and_not_the_session(
    calc: Repo, talk: Talk, home: dict[str, str], damage: str
):
    first_change(talk, calc)
    database = Path(home["WHIMBREL_STATE_DIR"]) / "sessions/sessions.db"
    with sqlite3.connect(database) as connection:
        where = "kind = ? AND seq = (SELECT max(seq) FROM events WHERE kind = ? AND payload NOT LIKE '%Changed.%')"
        connection.execute(f"UPDATE events SET payload = '{{\"cut' WHERE {where}", (damage, damage))
    with server(shows("On.")) as model:
        ran = talk(calc, "go on", "--continue", "--model", model.model("one"))
    assert ran.code == 0, ran.err
    assert "is damaged and is left out" in ran.err

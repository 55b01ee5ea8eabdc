"""The files of a conversation: recorded within bounds, and reached again from wherever the repository is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from whimbrel.app.sessions import SessionStore
from whimbrel.app.sessions.files import kept_states, put_back, record, route
from whimbrel.app.sessions.replay import Conversation, FileState, replay
from whimbrel.sandbox.base.errors import PatchConflict
from whimbrel.sandbox.workspace import Workspace


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / "a.txt").write_text("one\n")
    git(root, "add", "--all")
    git(
        root, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "--quiet", "--message", "x"
    )
    return root


def git(root: Path, *arguments: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(["git", *arguments], cwd=root, env=environment, check=True)


async def test_states_beyond_the_cap_go_oldest_first_and_the_newest_stays(
    repository: Path, tmp_path: Path
) -> None:
    store = SessionStore.open(tmp_path / "state")
    session = store.create(title="t", repository=str(repository), model="m")
    workspace = await Workspace.create(repository, tmp_path / "run")
    warned: list[str] = []
    try:
        for _ in range(5):
            workspace.write("big.bin", os.urandom(300_000))
            states = replay(store.events(session.id)).states
            await record(workspace, session, states, cap_bytes=1 << 20, warn=warned.append)
        now = replay(store.events(session.id))
        known = kept_states(now.states, session.fetch)
        assert [bool(state.problem) for state in known] == [True, True, False, False, False]
        (stored,) = store.connection.execute("SELECT sum(length(deflated)) FROM blobs").fetchone()
        assert stored < 1 << 20 and warned == []
        workspace.write("big.bin", os.urandom(3_000_000))
        await record(workspace, session, now.states, cap_bytes=1 << 20, warn=warned.append)
        assert "1 MiB that a session may keep" in warned[0]
        later = replay(store.events(session.id))
        assert later.files is not None and later.files.problem
        with pytest.raises(PatchConflict, match="cannot be had"):
            await put_back(workspace, later, session.fetch, wanted="session")
    finally:
        await workspace.destroy()


@pytest.mark.parametrize(
    "change", ["mode", "rename", "binary", "odd name", "delete", "link", "no final newline", "latin-1"]
)
async def test_every_kind_of_change_comes_back_as_it_was(
    repository: Path, tmp_path: Path, change: str
) -> None:
    store = SessionStore.open(tmp_path / "state")
    session = store.create(title="t", repository=str(repository), model="m")
    first = await Workspace.create(repository, tmp_path / "first")
    root = first.root
    actions = {
        "mode": lambda: (root / "a.txt").chmod(0o755),
        "rename": lambda: (root / "a.txt").rename(root / "b.txt"),
        "binary": lambda: (root / "c.bin").write_bytes(bytes(range(256))),
        "odd name": lambda: (root / "h\u00e9 \U0001f600\t.txt").write_text("x"),
        "delete": lambda: (root / "a.txt").unlink(),
        "link": lambda: (root / "l").symlink_to("a.txt"),
        "no final newline": lambda: (root / "a.txt").write_bytes(b"one\r\ntwo"),
        "latin-1": lambda: (root / "a.txt").write_bytes(b"\xe9\n"),
    }
    try:
        actions[change]()
        await record(first, session, cap_bytes=1 << 20, warn=pytest.fail)
        tree = await first.snapshot()
        assert tree != first.base.tree
    finally:
        await first.destroy()
    second = await Workspace.create(repository, tmp_path / "second")
    try:
        done = await put_back(second, replay(store.events(session.id)), session.fetch, wanted="session")
        assert (await second.snapshot(), done.remarks, done.moved_on) == (tree, (), False)
    finally:
        await second.destroy()


def test_the_way_to_a_state_goes_over_patches_forwards_and_backwards() -> None:
    states = [
        FileState(1, None, "A", "B", "ab"), FileState(2, None, "B", "C", "bc"), FileState(3, None, "A", "D", "ad"),
        FileState(4, None, "D", "E", "de", problem="gone"),
    ]  # fmt: skip

    def names(start: str, goal: str) -> list[tuple[str, bool]] | None:
        found = route(states, start, goal)
        return None if found is None else [(step.diff, back) for step, back in found]

    assert names("A", "C") == [("ab", False), ("bc", False)]
    assert names("C", "D") == [("bc", True), ("ab", True), ("ad", False)]
    assert names("A", "A") == [] and names("A", "E") is None and names("X", "A") is None


KILLED = """
import os, sys, signal
from pathlib import Path
from whimbrel.app.sessions import SessionStore
from whimbrel.engine.chat import Message, ToolCallPart, user
store = SessionStore.open(Path(sys.argv[1]))
writer = store.create(title="t", repository="/r", model="m")
writer.append("turn_started", {"model": "m"})
writer.append("message", user("do it").model_dump())
call = ToolCallPart(id="c", name="bash", arguments="{}")
writer.append("message", Message(role="assistant", parts=(call,)).model_dump())
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_turn_that_was_killed_is_said_to_have_lost_its_files(
    repository: Path, tmp_path: Path
) -> None:
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, str(tmp_path / "state")])
    assert done.returncode == -signal.SIGKILL
    store = SessionStore.open(tmp_path / "state")
    (info,) = store.sessions()
    conversation = replay(store.events(info.id))
    assert info.status == "interrupted" and [each.message.role for each in conversation.said] == [
        "user",
        "assistant",
    ]
    workspace = await Workspace.create(repository, tmp_path / "run")
    try:
        put = await put_back(workspace, conversation, lambda handle: store.blob(handle)[0], wanted="session")
        assert "was killed" in put.remarks[0] and "is gone" in put.remarks[0]
        assert (await put_back(workspace, Conversation(), lambda _: b"", wanted="session")).remarks == ()
    finally:
        await workspace.destroy()

"""SIGINT and SIGTERM while a tool runs: tree dead, results given, session closed, exit code right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from whimbrel.app.sessions import SessionStore

from ..mock_server import MockServer, Pause, Reply, completion

DOOR = """
import asyncio, sys
from pathlib import Path
from whimbrel.app.agent.signals import interruptible
from whimbrel.app.agent.loop import Agent
from whimbrel.app.agent.permissions import Permissions
from whimbrel.app.agent.prompts import opening
from whimbrel.app.sessions import SessionStore
from whimbrel.app.tools.bash import BashTool
from whimbrel.engine.models import load_model
from whimbrel.sandbox.base.errors import WhimbrelError
sys.path.insert(0, sys.argv[3])
from tests.repair.project import opened

async def main(base, model):
    store = SessionStore.open(base / "state")
    async with interruptible():
        async with opened(base, {"a.py": "x = 1\\n"}) as context:
            with store.create(title="t", repository="r", model=model.name) as session:
                context.keep, context.fetch = session.keep, session.fetch
                agent = Agent(model, [BashTool()], context, session=session, limits=[],
                              permissions=Permissions.for_sandbox(context.sandbox.describe()),
                              on_event=lambda event: print(event.kind, flush=True))
                await agent.run(opening("hang"))

try:
    asyncio.run(main(Path(sys.argv[1]), load_model(sys.argv[2])))
except WhimbrelError as error:
    print(error.one_line(), file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize(
    ("number", "status", "code"), [(signal.SIGINT, "cancelled", 130), (signal.SIGTERM, "terminated", 143)]
)
def test_a_signal_during_a_command_ends_everything_in_order(
    tmp_path: Path, number: signal.Signals, status: str, code: int
) -> None:
    command = f"sleep 600 & echo $! > {tmp_path}/pids; sleep 600 & echo $! >> {tmp_path}/pids; wait"
    with MockServer(
        [completion(calls=[("a", "bash", {"command": command}), ("b", "bash", {"command": "true"})])]
    ) as server:
        root = Path(__file__).parents[2]
        process = subprocess.Popen(
            [sys.executable, "-c", DOOR, str(tmp_path), server.model(), str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
        pids = _wait_for_pids(tmp_path / "pids", process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert len(err.splitlines()) == 1
    assert out.split()[-1] == "run_finished"
    assert not any(_alive(pid) for pid in pids)
    store = SessionStore.open(tmp_path / "state")
    (info,) = store.sessions()
    assert info.status == status
    events = list(store.events(info.id))
    assert events[-1].payload["status"] == status
    answered = [
        part["call_id"]
        for event in events
        if event.kind == "message" and event.payload["role"] == "tool"
        for part in event.payload["parts"]
    ]
    assert answered == ["a", "b"]


def test_the_process_ends_with_the_run_although_the_server_keeps_the_connection_open(tmp_path: Path) -> None:
    release = threading.Event()
    answer = completion(text="nothing to do")
    held = Reply(pieces=[*answer.pieces, Pause(release)])
    with MockServer([held]) as server:
        try:
            done = subprocess.run(
                [sys.executable, "-c", DOOR, str(tmp_path), server.model(), str(Path(__file__).parents[2])],
                capture_output=True,
                text=True,
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
                timeout=60,
            )
        finally:
            release.set()
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "run_finished"
    (info,) = SessionStore.open(tmp_path / "state").sessions()
    assert info.status == "answered"


def _wait_for_pids(path: Path, process: subprocess.Popen[str]) -> list[int]:
    for _ in range(3000):
        pids = path.read_text().split() if path.exists() else []
        if len(pids) == 2:
            return [int(pid) for pid in pids]
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"the command never started: {process.communicate()}")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

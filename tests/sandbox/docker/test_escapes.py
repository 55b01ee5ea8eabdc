"""Every escape attempt of ``escape_cases``, made inside a real container."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import SandboxDied
from whimbrel.sandbox.protocol import SandboxLimits

from ..escape_cases import (
    ATTEMPTS,
    DAEMONISED_CHILD,
    DISK_FILL,
    FORK_BOMB,
    GIT_CONFIG,
    ONE_GIGABYTE_OF_OUTPUT,
    ONE_LARGE_FILE,
    SECRET_TEXT,
    TEN_THOUSAND_FILES,
    EscapeCase,
    host_objects,
)
from .conftest import Box, MakeBox, docker

pytestmark = pytest.mark.docker


@pytest.fixture
def host(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What there is to be found on the host, as the variables the scripts read."""
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET_TEXT)
    secret.chmod(0o644)
    mark = f"whimbrel-host-{os.getpid()}"
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", mark])
    listener = socket.create_server(("0.0.0.0", 0))
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    with host_objects(mark) as objects:
        yield {
            "SECRET_FILE": str(secret),
            "HOST_PORT": str(listener.getsockname()[1]),
            "HOST_PID": str(process.pid),
            **objects,
            "HOST_ADDRESSES": " ".join(address for address in listed if ":" not in address),
        }
    listener.close()
    process.kill()
    process.wait()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name.replace(" ", "-"))
async def test_a_sandboxed_command_cannot(attempt: EscapeCase, box: Box, host: dict[str, str]) -> None:
    result = await box.sh(attempt.script, env=host, timeout_s=attempt.timeout_s)
    assert "ESCAPED" not in result.text()
    assert SECRET_TEXT not in result.text()
    assert result.text().splitlines()[-1] == "contained"


async def test_a_fork_bomb_is_contained_and_the_sandbox_stays_usable(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(pids=128))
    result = await box.sh(FORK_BOMB.script, timeout_s=FORK_BOMB.timeout_s)
    assert result.timed_out
    assert (await box.sh("echo usable")).text() == "usable\n"
    assert await box.processes() == ""


async def test_filling_the_disk_is_stopped_with_the_reason(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(disk_bytes=200 << 20))
    result = await box.sh(DISK_FILL.script, timeout_s=DISK_FILL.timeout_s)
    assert result.killed
    assert "the workspace grew beyond its limit of 200 MiB" in result.note
    assert sum(path.stat().st_size for path in box.workspace.iterdir()) < 1 << 30
    assert (await box.sh("rm fill.*; echo cleaned")).text() == "cleaned\n"
    assert (
        await box.sh("head -c 50000000 /dev/zero > again && sleep 2 && echo allowed")
    ).text() == "allowed\n"


async def test_the_size_of_a_file_is_limited(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(file_bytes=64 << 20))
    result = await box.sh(ONE_LARGE_FILE.script)
    assert result.text().splitlines()[-1] == "contained"
    assert (box.workspace / "large").stat().st_size == 64 << 20


async def test_the_temporary_folder_is_limited(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(tmp_bytes=16 << 20))
    result = await box.sh("head -c 50000000 /dev/zero > /tmp/large; wc -c < /tmp/large")
    assert "No space left on device" in result.text()
    assert int(result.text().split()[-1]) <= 16 << 20


async def test_a_gigabyte_of_output_is_bounded_in_memory_and_counted_whole(box: Box) -> None:
    result = await box.sh(ONE_GIGABYTE_OF_OUTPUT.script, timeout_s=ONE_GIGABYTE_OF_OUTPUT.timeout_s)
    assert result.total_bytes == 1_000_000_009
    assert result.tail.endswith(b"last-line")
    assert len(result.head) + len(result.tail) < 1 << 20
    assert result.log_path.stat().st_size < 300 << 20
    assert "capped" in result.note


async def test_ten_thousand_files_are_no_problem(box: Box) -> None:
    result = await box.sh(TEN_THOUSAND_FILES.script, timeout_s=TEN_THOUSAND_FILES.timeout_s)
    assert result.text() == "10000\n"
    assert sum(1 for _ in (box.workspace / "many").iterdir()) == 10000


async def test_a_daemonised_child_is_gone_when_its_command_is(box: Box) -> None:
    result = await box.sh(DAEMONISED_CHILD.script, timeout_s=DAEMONISED_CHILD.timeout_s)
    assert result.exit_code == 0
    assert result.text() == "started\n"
    beats = (box.workspace / "heartbeat").stat().st_size if (box.workspace / "heartbeat").exists() else 0
    assert await box.processes() == ""
    await asyncio.sleep(1.5)
    now = (box.workspace / "heartbeat").stat().st_size if (box.workspace / "heartbeat").exists() else 0
    assert now == beats


async def test_git_configuration_does_not_outlive_the_sandbox(
    make_box: MakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Somebody\n")
    monkeypatch.setenv("HOME", str(home))
    first = await make_box()
    result = await first.sh(GIT_CONFIG.script)
    assert "touch /tmp/owned" in result.text()
    assert (home / ".gitconfig").read_text() == "[user]\n\tname = Somebody\n"
    second = await make_box()
    assert (await second.sh("git config --global --list")).exit_code != 0


async def test_a_command_that_stops_everything_it_can_is_ended_all_the_same(box: Box) -> None:
    # What the daemon sends in is stopped before it becomes ours, and the daemon hangs with it.
    result = await box.sh(
        "(setsid sh -c 'while :; do kill -STOP -1 2>/dev/null; done' &) ; sleep 100", timeout_s=3
    )
    assert result.timed_out
    assert "the sandbox was restarted" in result.note
    assert (await box.sh("echo usable", timeout_s=20)).text() == "usable\n"


async def test_a_paused_container_ends_the_run_instead_of_holding_it(box: Box) -> None:
    running = asyncio.create_task(box.sh("sleep 600", timeout_s=600))
    await asyncio.sleep(0.5)
    docker("pause", str(box.sandbox.container_name))
    with pytest.raises(SandboxDied, match="paused from outside"):
        await asyncio.wait_for(running, 20)

"""Whoever waits may be cancelled at any moment: nothing may be left running or lying about."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.protocol import Sandbox, SandboxSpec, run_to_end
from whimbrel.sandbox.select import Choice, make_sandbox, workspace_owner

from .bwrap.conftest import NoSnapshots

KINDS = (
    "host",
    pytest.param("bwrap", marks=pytest.mark.bwrap),
    pytest.param("docker", marks=pytest.mark.docker),
)


@pytest.fixture
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    kind = request.param
    workspace = tmp_path / "copy"
    workspace.mkdir()
    owner = workspace_owner(kind)
    if owner is not None:
        os.chown(workspace, *owner)
    spec = SandboxSpec(
        workspace=workspace,
        workdir=str(workspace) if kind == "host" else "/home/someone/demo",
        state_dir=tmp_path / "state",
        run_id=f"test-{secrets.token_hex(4)}",
    )
    made = make_sandbox(Choice(kind), spec, NoSnapshots())
    await made.start()
    yield made
    await made.stop()


def running(mark: str) -> str:
    """Command lines on this machine (insides included) that hold ``mark``."""
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in listing.splitlines() if mark in line)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("sandbox", KINDS, indirect=True)
async def test_cancelling_at_any_moment_leaves_nothing(sandbox: Sandbox) -> None:
    mark = str(random.SystemRandom().randrange(10**9, 10**10))
    scripts = (
        f"sleep {mark}",
        f"setsid sleep {mark} & sleep {mark}",
        f"(trap '' TERM HUP; while :; do sleep 0.{mark}; done) & kill -STOP $$",
    )
    chance = random.Random(7)
    await sandbox.write("there", b"content")
    await sandbox.read("there")
    # The client keeps connections to a container daemon open for later calls, one per worker thread.
    pooled = 8 if sandbox.describe().kind == "docker" else 0
    allowed = descriptors() + pooled

    async def talk() -> None:
        channel = await sandbox.open_channel(["/bin/sh", "-c", f"cat; setsid sleep {mark} & sleep {mark}"])
        try:
            await channel.send(b"x" * 300_000)
            while True:
                await channel.receive()
        finally:
            await channel.close()

    for _ in range(24):
        action = chance.choice((0, 1, 2, 3))
        try:
            async with asyncio.timeout(chance.random() * chance.choice((0.03, 0.2))):
                if action == 0:
                    await run_to_end(sandbox, ["/bin/sh", "-c", chance.choice(scripts)])
                elif action == 1:
                    await (await sandbox.run(["/bin/sh", "-c", chance.choice(scripts)])).wait()
                elif action == 2:
                    await talk()
                else:
                    await sandbox.write("there", await sandbox.read("there"))
        except TimeoutError:
            continue
    for _ in range(100):
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if not running(mark) and not left and descriptors() <= allowed:
            break
        await asyncio.sleep(0.05)
    assert running(mark) == ""
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert descriptors() <= allowed
    starts = sandbox.spec.state_dir / "bwrap" / "starts"
    if starts.is_dir():
        assert len(list(starts.iterdir())) == 1, "only the network namespace's holder still runs"


@pytest.mark.parametrize("sandbox", KINDS, indirect=True)
async def test_twenty_commands_and_four_helpers_at_once_keep_the_loop_free(sandbox: Sandbox) -> None:
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            worst = max(worst, time.thread_time() - before)
            await asyncio.sleep(0.005)

    async def echo(number: int) -> None:
        channel = await sandbox.open_channel(["/bin/cat"])
        try:
            for size in (1, 70_000, 3_000_000):
                message = bytes([97 + number]) * size + b"\n"
                sending = asyncio.ensure_future(channel.send(message))
                assert await channel.receive_line() == message
                await sending
        finally:
            await channel.close()

    # A collection of what other tests left is no part of what a turn does.
    gc.collect()
    gc.freeze()
    began = time.thread_time()
    watcher = asyncio.create_task(watch())
    try:
        script = "head -c 3000000 /dev/zero | tr '\\0' x; printf %s \"$0\""
        commands = [
            run_to_end(sandbox, ["/bin/sh", "-c", script, f"end-{n}"], timeout_s=120) for n in range(20)
        ]
        results, _ = await asyncio.gather(
            asyncio.gather(*commands), asyncio.gather(*(echo(n) for n in range(4)))
        )
    finally:
        watcher.cancel()
        gc.unfreeze()
    spent = time.thread_time() - began
    for number, result in enumerate(results):
        assert (result.exit_code, result.total_bytes) == (0, 3_000_000 + len(f"end-{number}"))
        assert result.tail.endswith(f"end-{number}".encode())
    assert worst < 0.4 * spent, "one turn of the event loop did so much of the work of all commands"


@pytest.mark.parametrize("sandbox", KINDS, indirect=True)
async def test_a_pipe_or_an_endless_file_in_place_of_a_file_holds_nobody_up(sandbox: Sandbox) -> None:
    done = await run_to_end(
        sandbox, ["/bin/sh", "-c", "mkfifo pipe; truncate -s 80M large; mkdir folder"], timeout_s=20
    )
    assert done.exit_code == 0
    async with asyncio.timeout(30):
        with pytest.raises((OSError, ToolError), match="not a regular file"):
            await sandbox.read("pipe")
        with pytest.raises(ToolError, match="larger than 64 MiB"):
            await sandbox.read("large")
        with pytest.raises(IsADirectoryError):
            await sandbox.read("folder")

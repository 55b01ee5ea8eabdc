"""Start, background commands, kill, parallel runs, and what is left when Whimbrel itself is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import SandboxDied, SandboxUnavailable, ToolError
from whimbrel.sandbox.bwrap import probe_bwrap
from whimbrel.sandbox.protocol import NetworkPolicy, SandboxLimits, run_to_end

from .conftest import PYTHON, WORKDIR, Box, MakeBox
from .test_escapes import running_with

pytestmark = pytest.mark.bwrap


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def test_a_command_sees_the_workspace_at_the_original_path(box: Box) -> None:
    (box.workspace / "hello.txt").write_text("from the host")
    result = await box.sh("pwd; cat hello.txt")
    assert result.text() == f"{WORKDIR}\nfrom the host"
    assert result.argv[0] == "/bin/sh"
    assert result.cwd == WORKDIR
    assert box.sandbox.describe().isolated


async def test_exit_codes_and_signals_are_those_of_the_command(box: Box) -> None:
    assert (await box.sh("exit 7")).exit_code == 7
    assert (await box.sh("kill -KILL $$")).exit_code == 128 + signal.SIGKILL
    missing = await run_to_end(box.sandbox, ["no-such-program"])
    assert missing.exit_code == 127
    assert "no-such-program" in missing.text()
    await box.sandbox.write("data", b"no program")
    assert (await run_to_end(box.sandbox, ["./data"])).exit_code == 126


async def test_a_missing_working_directory_is_an_error_the_model_can_react_to(box: Box) -> None:
    with pytest.raises(ToolError, match="does not exist in the sandbox"):
        await box.sh("true", cwd="gone")
    assert (await box.sh("mkdir gone && cd gone && pwd")).exit_code == 0
    assert (await box.sh("pwd", cwd="gone")).text() == f"{WORKDIR}/gone\n"


@pytest.mark.parametrize(
    "argv", [[], ["echo", "x" * 200_000], ["echo", "a\0b"], ["echo", *["y" * 100_000] * 30]]
)
async def test_a_command_line_no_system_takes_is_the_models_error_not_the_sandboxs(
    box: Box, argv: list[str]
) -> None:
    with pytest.raises(ToolError):
        await box.sandbox.run(argv)
    assert (await box.sh("echo fine")).text() == "fine\n"


async def test_a_variable_that_was_stripped_is_named_with_the_reason(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_URL", "http://localhost")
    result = await box.sh('set -u; echo "$SERVICE_URL"')
    assert result.exit_code != 0
    assert "SERVICE_URL is set outside but commands get a scrubbed environment" in result.note


async def test_standard_input_is_empty_and_prompts_fail_at_once(box: Box) -> None:
    result = await box.sh("read answer || echo no answer")
    assert result.text() == "no answer\n"


async def test_variables_of_the_run_and_the_command_arrive_and_secrets_do_not(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    box = await make_box(env={"FROM_RUN": "a b=c\n'quoted'", "BOTH": "run"})
    result = await box.sh(
        'printf "%s|%s|%s|%s" "$FROM_RUN" "$BOTH" "$FROM_COMMAND" "$OPENAI_API_KEY"',
        env={"FROM_COMMAND": "x", "BOTH": "command"},
    )
    assert result.text() == "a b=c\n'quoted'|command|x|"
    assert "sk-very-secret" not in (await box.sh("env; cat /proc/*/environ")).text()


async def test_a_background_server_answers_later_commands_until_it_is_killed(box: Box) -> None:
    server = await box.sandbox.run([PYTHON, "-m", "http.server", "8123"], label="server")
    ask = (
        "import time, urllib.request\n"
        "for _ in range(100):\n"
        "    try: print(urllib.request.urlopen('http://127.0.0.1:8123/note.txt').read().decode()); break\n"
        "    except OSError: time.sleep(0.05)\n"
        "else: print('no answer')\n"
    )
    (box.workspace / "note.txt").write_text("served")
    assert (await box.py(ask)).text() == "served\n"
    await server.kill()
    result = await server.wait()
    assert result.killed
    gone = await box.py("import socket; print(socket.socket().connect_ex(('127.0.0.1', 8123)) != 0)")
    assert gone.text() == "True\n"


async def test_a_time_limit_ends_the_whole_tree(box: Box) -> None:
    marker = f"32{os.getpid()}.5"
    result = await box.sh(f"sleep {marker} & setsid sleep {marker} & sleep {marker}", timeout_s=1)
    assert result.timed_out
    assert not running_with(marker)


async def test_a_process_that_ignores_signals_dies_with_its_sandbox(box: Box) -> None:
    marker = f"33{os.getpid()}.5"
    handle = await box.sandbox.run(
        ["/bin/sh", "-c", f"trap '' TERM INT HUP; echo up; sleep {marker} & while :; do sleep {marker}; done"]
    )
    # The shell says "up" before it has started its children: they are waited for, not assumed.
    for _ in range(200):
        if len(running_with(marker)) >= 2:
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the processes that are to be killed never ran")
    await handle.kill()
    assert not running_with(marker)


async def test_a_command_killed_at_any_moment_of_its_start_leaves_nothing(box: Box) -> None:
    marker = f"36{os.getpid()}.5"
    for step in range(16):
        handle = await box.sandbox.run(["/bin/sh", "-c", f"setsid sleep {marker} & sleep {marker}"])
        await asyncio.sleep(step * 0.006)
        await handle.kill()
        assert not running_with(marker)
    kept = [path for path in (box.state / "bwrap" / "starts").iterdir() if path.suffix == ".plan"]
    assert kept == []


async def test_stopping_ends_what_still_runs_and_leaves_only_logs(make_box: MakeBox) -> None:
    box = await make_box()
    marker = f"34{os.getpid()}.5"
    await box.sandbox.run(["sleep", marker])
    channel = await box.sandbox.open_channel(["cat"])
    await channel.send(b"ping\n")
    assert await channel.receive_line() == b"ping\n"
    await box.sh(
        "mkdir -p deep/er; touch /tmp/a ~/b; mkdir /tmp/closed; touch /tmp/closed/x; chmod 0 /tmp/closed"
    )
    await box.sandbox.stop()
    await box.sandbox.stop()
    assert not running_with(marker)
    assert [path.name for path in box.state.iterdir()] == ["logs"]
    with pytest.raises(SandboxUnavailable):
        await box.sh("true")


async def test_two_runs_at_the_same_time_do_not_see_each_other(make_box: MakeBox) -> None:
    one, two = await make_box(), await make_box()
    server = await one.sandbox.run([PYTHON, "-m", "http.server", "8124"])
    results = await asyncio.gather(
        one.sh("echo one > /tmp/who; echo one > who; sleep 0.3; cat /tmp/who who"),
        two.sh("echo two > /tmp/who; echo two > who; sleep 0.3; cat /tmp/who who"),
    )
    assert [result.text().split() for result in results] == [["one", "one"], ["two", "two"]]
    assert (
        await two.py("import socket; print(socket.socket().connect_ex(('127.0.0.1', 8124)) != 0)")
    ).text() == "True\n"
    await server.kill()


async def test_a_channel_reports_the_end_and_the_errors_of_its_helper(box: Box) -> None:
    channel = await box.sandbox.open_channel(
        ["/bin/sh", "-c", "read line; echo got $line; echo trouble >&2; exit 5"]
    )
    await channel.send(b"hello\n")
    assert await channel.receive_line() == b"got hello\n"
    assert await channel.receive() == b""
    assert await channel.close() == 5
    assert b"trouble" in channel.errors()


async def test_files_are_read_and_written_with_their_modes(box: Box) -> None:
    data = bytes(range(256)) * 5000
    await box.sandbox.write("new/dir/data.bin", data)
    assert await box.sandbox.read("new/dir/data.bin") == data
    assert await box.sandbox.read(f"{WORKDIR}/new/dir/data.bin") == data
    await box.sandbox.write("run.sh", b"#!/bin/sh\necho ran\n", executable=True)
    assert (await run_to_end(box.sandbox, ["./run.sh"])).text() == "ran\n"
    await box.sandbox.write("run.sh", b"#!/bin/sh\necho again\n")
    assert (await run_to_end(box.sandbox, ["./run.sh"])).text() == "again\n"
    await box.sandbox.write("empty", b"")
    assert await box.sandbox.read("empty") == b""
    assert sorted(path.name for path in box.workspace.iterdir()) == ["empty", "new", "run.sh"]


async def test_reading_and_writing_fail_as_for_local_files(box: Box) -> None:
    (box.workspace / "folder").mkdir()
    with pytest.raises(FileNotFoundError):
        await box.sandbox.read("nothing")
    with pytest.raises(IsADirectoryError):
        await box.sandbox.read("folder")
    with pytest.raises(OSError, match="not a regular file"):
        await box.sandbox.read("/dev/zero")
    with pytest.raises(IsADirectoryError):
        await box.sandbox.write("folder", b"")
    for outside in ("/etc/passwd", "../other", "/usr/x"):
        with pytest.raises(ToolError, match="outside the workspace"):
            await box.sandbox.write(outside, b"x")


async def test_a_workspace_that_vanished_ends_the_run_with_its_own_status(make_box: MakeBox) -> None:
    box = await make_box()
    box.workspace.rmdir()
    with pytest.raises(SandboxDied):
        await box.sh("true")


async def test_an_open_network_is_said_to_be_open(make_box: MakeBox) -> None:
    box = await make_box(network=NetworkPolicy.ALLOW)
    assert any("network is open" in line for line in box.sandbox.describe().warnings)
    result = await box.sh("readlink /proc/self/ns/net; [ -e /etc/resolv.conf ] && echo resolver")
    assert result.text().splitlines()[0] == str(Path("/proc/self/ns/net").readlink())


@pytest.mark.parametrize("workdir", ["/", "/etc", "/proc/self", "/usr", "relative", "/srv/../etc"])
async def test_a_repository_in_a_system_place_is_refused_in_one_line(make_box: MakeBox, workdir: str) -> None:
    with pytest.raises(SandboxUnavailable, match="cannot be shown"):
        await make_box(workdir=workdir)


@pytest.mark.parametrize(
    "workdir", ["/tmp/some/project", "/root/project", "/var/lib/ci/project", "/srv/a/b/c", "/home/whimbrel/p"]
)
async def test_a_repository_may_lie_anywhere_else(make_box: MakeBox, workdir: str) -> None:
    box = await make_box(workdir=workdir)
    assert (await box.sh("pwd; echo x > file; cat file")).text() == f"{workdir}\nx\n"
    assert (box.workspace / "file").read_text() == "x\n"


RUN_FOREVER = """
import asyncio, os, sys
from pathlib import Path
from whimbrel.sandbox.bwrap import BwrapSandbox
from whimbrel.sandbox.protocol import SandboxSpec
from whimbrel.sandbox.select import workspace_owner

async def main(root, marker):
    workspace = root / "copy"
    workspace.mkdir()
    owner = workspace_owner("bwrap")
    if owner:
        os.chown(workspace, *owner)
    spec = SandboxSpec(workspace, "/srv/demo", root / "state", "killed-" + marker)
    sandbox = BwrapSandbox(spec, None)
    await sandbox.start()
    handle = await sandbox.run(["/bin/sh", "-c", f"setsid sleep {marker} & echo up; sleep {marker}"])
    async for _ in handle.output():
        break
    print("running", flush=True)
    await handle.wait()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def test_killing_whimbrel_kills_everything_inside_and_the_next_start_sweeps_the_rest(tmp_path: Path) -> None:
    marker = f"35{os.getpid()}.5"
    victim = subprocess.Popen(
        [sys.executable, "-c", RUN_FOREVER, str(tmp_path), marker], stdout=subprocess.PIPE
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == b"running\n"
    assert eventually(lambda: len(running_with(marker)) >= 2)
    victim.kill()
    victim.wait()
    assert eventually(lambda: not running_with(marker))
    left = [path for path in Path("/sys/fs/cgroup").glob("**/whimbrel-*") if f"killed-{marker}" in path.name]
    asyncio.run(probe_bwrap())
    assert not any(path.exists() for path in left)


async def test_groups_of_a_living_run_survive_the_start_of_another(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(pids=40))
    await probe_bwrap()
    assert (await box.sh("echo fine")).text() == "fine\n"

"""Running commands: real shells, real trees of processes, real signals."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.base.process import (
    ProcessHandle,
    base_environment,
    open_process_channel,
    run_process,
    start_process,
)
from whimbrel.sandbox.base.results import ExecResult


async def shell(script: str, directory: Path, **options: object) -> ExecResult:
    options.setdefault("env", base_environment())
    options.setdefault("log_path", directory.parent / f"{directory.name}.log")
    return await run_process(["bash", "-c", script], cwd=directory, **options)  # type: ignore[arg-type]


async def begin(script: str, directory: Path, **options: object) -> ProcessHandle:
    options.setdefault("env", base_environment())
    options.setdefault("log_path", directory.parent / f"{directory.name}.log")
    return await start_process(["bash", "-c", script], cwd=directory, **options)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rfind(")") + 2] not in "ZX"


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("what was waited for did not happen within ten seconds")


async def pid_in(path: Path) -> int:
    await until(lambda: path.exists() and path.read_text().strip() != "")
    return int(path.read_text())


async def test_a_command_gives_its_output_code_and_place(tmp_path: Path) -> None:
    result = await shell("pwd; echo oops >&2; exit 3", tmp_path)
    assert result.exit_code == 3
    assert result.head == f"{tmp_path}\noops\n".encode()
    assert (result.total_lines, result.truncated, result.timed_out, result.killed) == (2, False, False, False)
    assert result.log_path.read_bytes() == result.head


async def test_a_signal_becomes_128_plus_its_number(tmp_path: Path) -> None:
    assert (await shell("kill -9 $$", tmp_path)).exit_code == 137


async def test_process_substitution_that_holds_the_pipe_returns(tmp_path: Path) -> None:
    result = await shell("exec > >(tee copy) 2>&1; echo hello; true", tmp_path, timeout_s=30)
    assert not result.timed_out
    assert result.head == b"hello\n"
    assert (tmp_path / "copy").read_bytes() == b"hello\n"


async def test_the_last_byte_of_a_megabyte_is_there(tmp_path: Path) -> None:
    result = await shell("head -c 1000000 /dev/zero | tr '\\0' x; printf END", tmp_path)
    assert result.total_bytes == 1_000_003
    assert result.tail.endswith(b"xEND")
    assert result.log_path.read_bytes()[-4:] == b"xEND"


async def test_a_time_limit_ends_the_shell_and_its_children(tmp_path: Path) -> None:
    result = await shell("sleep 500 & echo $! > child; echo before; sleep 500", tmp_path, timeout_s=0.5)
    assert result.timed_out
    assert not result.killed
    assert result.head == b"before\n"
    assert "time limit of 0.5 s" in result.note
    assert not alive(int((tmp_path / "child").read_text()))


async def test_a_command_that_ignores_sigterm_is_ended_all_the_same(tmp_path: Path) -> None:
    script = "trap '' TERM; echo $$ > pid; while true; do sleep 0.05; done"
    result = await shell(script, tmp_path, timeout_s=0.3)
    assert result.timed_out
    assert result.exit_code == 137
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_a_stopped_process_is_ended_too(tmp_path: Path) -> None:
    result = await shell("sleep 500 & echo $! > child; kill -STOP $!; sleep 500", tmp_path, timeout_s=0.3)
    assert result.timed_out
    assert not alive(int((tmp_path / "child").read_text()))


async def test_a_daemon_in_its_own_session_neither_hangs_the_command_nor_survives_it(tmp_path: Path) -> None:
    script = "setsid bash -c 'echo $$ > daemon; exec sleep 500' & until test -s daemon; do sleep 0.01; done"
    result = await shell(script, tmp_path, timeout_s=60)
    assert not result.timed_out
    assert result.exit_code == 0
    assert "background process" in result.note
    assert not alive(int((tmp_path / "daemon").read_text()))


async def test_a_twice_forked_daemon_that_closed_everything_does_not_survive(tmp_path: Path) -> None:
    program = (
        "import os,sys,time\n"
        "if os.fork(): os.wait(); sys.exit()\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "os.closerange(0, 64)\n"
        "open('daemon.tmp','w').write(str(os.getpid())); os.rename('daemon.tmp','daemon')\n"
        "time.sleep(500)\n"
    )
    (tmp_path / "daemon.py").write_text(program)
    await shell(
        f"{sys.executable} daemon.py; until test -s daemon; do sleep 0.01; done", tmp_path, timeout_s=60
    )
    daemon = int((tmp_path / "daemon").read_text())
    assert not alive(daemon)
    assert not Path(f"/proc/{daemon}").exists(), "the orphan was left behind as a zombie"


async def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    bystander = await asyncio.to_thread(subprocess.Popen, ["sleep", "500"], start_new_session=True)
    try:
        await shell("sleep 500 & sleep 500", tmp_path, timeout_s=0.2)
        assert bystander.poll() is None
        other = await begin("sleep 500", tmp_path, log_path=tmp_path / "other.log")
        await shell("setsid sleep 500 & true", tmp_path)
        assert alive(other.pid)
        await other.kill()
    finally:
        bystander.kill()
        bystander.wait()


async def test_cancelling_the_waiter_ends_the_tree(tmp_path: Path) -> None:
    task = asyncio.ensure_future(shell("sleep 500 & echo $! > child; wait", tmp_path))
    child = await pid_in(tmp_path / "child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(child)


async def test_kill_returns_when_the_tree_is_gone_and_may_be_called_again(tmp_path: Path) -> None:
    handle = await begin("bash -c 'sleep 500 & echo $! > child; wait'", tmp_path)
    child = await pid_in(tmp_path / "child")
    await handle.kill()
    assert not alive(child)
    assert not alive(handle.pid)
    await handle.kill()
    result = await handle.wait()
    assert result.killed
    assert not result.timed_out
    assert await handle.wait() is result


async def test_a_loop_that_goes_down_takes_its_commands_along(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from whimbrel.sandbox.base.process import base_environment, start_process\n"
        "async def main():\n"
        "    await start_process(['bash', '-c', 'setsid sleep 500 & echo $! > child; sleep 500'], cwd='.',\n"
        "                        env=base_environment(), log_path=Path('log'))\n"
        "    while not (Path('child').exists() and Path('child').read_text()): await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
    )
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60
    )
    assert not alive(int((tmp_path / "child").read_text()))


async def test_sigterm_to_the_program_can_end_every_tree_at_once(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, signal\n"
        "from pathlib import Path\n"
        "from whimbrel.sandbox.base.process import base_environment, end_all_processes, start_process\n"
        "def stop(*_):\n"
        "    end_all_processes(); os._exit(143)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "async def main():\n"
        "    handle = await start_process(['bash', '-c', 'setsid sleep 500 & echo $! > child; sleep 500'],\n"
        "                                 cwd='.', env=base_environment(), log_path=Path('log'))\n"
        "    await handle.wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", program], cwd=tmp_path)
    child = await pid_in(tmp_path / "child")
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 30) == 143
    assert not alive(child)


async def test_questions_find_nobody_to_answer(tmp_path: Path) -> None:
    result = await shell("read -p 'Proceed? ' x || echo 'no input'; tty < /dev/tty", tmp_path, timeout_s=20)
    assert not result.timed_out
    assert b"no input" in result.head
    assert b"No such device" in result.head


async def test_no_key_and_no_git_or_loader_variable_reaches_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "GIT_DIR", "GIT_INDEX_FILE", "LD_LIBRARY_PATH", "FOO"):
        monkeypatch.setenv(name, "tell-tale")
    monkeypatch.setenv("LC_TIME", "C")
    result = await shell("env", tmp_path)
    assert b"tell-tale" not in result.head
    names = {line.split("=")[0] for line in result.text().splitlines()}
    assert {"PATH", "CI", "PAGER", "GIT_TERMINAL_PROMPT", "NO_COLOR", "LC_TIME"} <= names


async def test_a_variable_that_was_held_back_is_named_with_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    result = await shell("python3 -c 'import os; os.environ[\"DATABASE_URL\"]'", tmp_path)
    assert "DATABASE_URL is set outside but commands get a scrubbed environment" in result.note
    assert "secret" not in result.note
    given = base_environment(keep=("DATABASE_URL",))
    assert (await shell('test -n "$DATABASE_URL"', tmp_path, env=given)).exit_code == 0


async def test_fifty_megabytes_and_a_time_limit_stay_bounded(tmp_path: Path) -> None:
    script = "head -c 50000000 /dev/zero; echo LAST; sleep 500"
    result = await shell(script, tmp_path, timeout_s=5)
    assert result.timed_out
    assert result.total_bytes == 50_000_005
    assert len(result.head) + len(result.tail) <= 65_536
    assert result.tail.endswith(b"LAST\n")


async def test_a_capped_log_says_what_it_lacks_and_keeps_the_end(tmp_path: Path) -> None:
    result = await shell("seq 1 100000", tmp_path, log_cap_bytes=10_000, tail_bytes=1000)
    log = result.log_path.read_bytes()
    assert result.total_lines == 100_000
    assert log.startswith(b"1\n2\n3\n")
    assert log.endswith(b"99999\n100000\n")
    assert f"{result.total_bytes - 11_000} bytes not kept".encode() in log
    assert "capped" in result.note


async def test_a_full_disk_costs_the_log_but_not_the_result(tmp_path: Path) -> None:
    result = await shell("echo fine; exit 4", tmp_path, log_path=Path("/dev/full"))
    assert (result.exit_code, result.head) == (4, b"fine\n")
    assert "No space left on device" in result.note


async def test_a_deleted_working_directory_is_a_clear_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(ToolError, match=r"working directory .*gone does not exist"):
        await shell("true", gone)
    gone.mkdir()
    assert (await shell("rm -rf ../gone; echo survived", gone)).head == b"survived\n"
    with pytest.raises(ToolError, match="does not exist"):
        await shell("true", gone)


async def test_a_missing_program_and_a_plain_file_are_named(tmp_path: Path) -> None:
    options = {"cwd": tmp_path, "env": base_environment(), "log_path": tmp_path / "log"}
    with pytest.raises(ToolError, match="'no-such-program' was not found"):
        await run_process(["no-such-program"], **options)
    script = tmp_path / "script"
    script.write_text("echo hi\n")
    with pytest.raises(ToolError, match="permission denied"):
        await run_process([str(script)], **options)
    script.chmod(0o755)
    with pytest.raises(ToolError, match="not a program"):
        await run_process([str(script)], **options)
    with pytest.raises(ToolError, match="longer than the system allows"):
        await run_process(["echo", *["x" * 100_000] * 100], **options)


async def test_output_can_be_followed_while_the_command_runs(tmp_path: Path) -> None:
    handle = await begin("echo one; until test -e go; do sleep 0.01; done; echo two", tmp_path)
    seen = b""
    async for chunk in handle.output():
        seen += chunk
        if seen == b"one\n":
            (tmp_path / "go").touch()
    assert seen == b"one\ntwo\n"
    assert (await handle.wait()).head == seen


async def test_a_file_size_limit_reaches_the_command(tmp_path: Path) -> None:
    limits = {resource.RLIMIT_FSIZE: (4096, 4096)}
    result = await shell("head -c 10000 /dev/zero > big; stat -c %s big", tmp_path, rlimits=limits)
    assert b"4096" in result.head


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the user")
async def test_a_command_can_run_as_another_user_without_our_groups(tmp_path: Path) -> None:
    result = await shell("id -u; id -g; id -G", Path("/"), user=61832, group=61832, log_path=tmp_path / "log")
    assert result.head.split() == [b"61832"] * 3


async def test_many_commands_at_once_do_not_mix(tmp_path: Path) -> None:
    async def one(number: int) -> ExecResult:
        return await shell(
            f"for i in 1 2 3; do echo {number}; done", tmp_path, log_path=tmp_path / f"{number}.log"
        )

    results = await asyncio.gather(*(one(number) for number in range(20)))
    assert [result.head for result in results] == [f"{number}\n".encode() * 3 for number in range(20)]


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    await shell("true", tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await shell("setsid sleep 500 & true", tmp_path)
        channel = await open_process_channel(["cat"], cwd=tmp_path, env=base_environment())
        await channel.close()
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_a_channel_carries_bytes_both_ways(tmp_path: Path) -> None:
    channel = await open_process_channel(["cat"], cwd=tmp_path, env=base_environment())
    payload = bytes(range(256)) * 4000
    sending = asyncio.ensure_future(channel.send(payload + b"\n"))
    received = b""
    while len(received) < len(payload) + 1:
        received += await channel.receive()
    await sending
    assert received == payload + b"\n"
    await channel.send(b"a line\nand more")
    assert await channel.receive_line() == b"a line\n"
    assert await channel.close() == 0
    assert await channel.close() == 0


async def test_a_helper_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    argv = ["bash", "-c", "echo 'boom: no module' >&2; exit 7"]
    channel = await open_process_channel(argv, cwd=tmp_path, env=base_environment())
    assert await channel.receive_line() == b""
    await until(lambda: b"boom" in channel.errors())
    with pytest.raises(ToolError, match="boom: no module"):
        for _ in range(100):
            await channel.send(b"x" * 65536)
    assert await channel.close() == 7


async def test_closing_a_channel_ends_helpers_of_the_helper(tmp_path: Path) -> None:
    argv = ["bash", "-c", "trap '' TERM HUP; setsid sleep 500 & echo $!; sleep 500"]
    channel = await open_process_channel(argv, cwd=tmp_path, env=base_environment())
    child = int(await channel.receive_line())
    await channel.close()
    assert not alive(child)
    assert not alive(channel.pid)


async def test_a_process_that_keeps_forking_away_is_ended(tmp_path: Path) -> None:
    # Each process starts its successor and goes: there is never one pid to aim at for long.
    handle = await begin("f() { ( sleep 0.01; f ) & }; f; sleep 500", tmp_path, timeout_s=0.5)
    await handle.wait()
    sessions = [
        _session(int(entry)) for entry in os.listdir("/proc") if entry.isdigit() and alive(int(entry))
    ]
    assert handle.pid not in sessions


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1

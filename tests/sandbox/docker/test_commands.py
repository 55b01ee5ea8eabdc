"""Commands and helpers inside a container: output, time limits, process trees, files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.protocol import SandboxLimits, run_to_end

from .conftest import Box, MakeBox

pytestmark = pytest.mark.docker


async def test_the_last_byte_of_the_output_is_never_lost(box: Box) -> None:
    for _ in range(5):
        result = await box.sh("head -c 1000000 /dev/zero; printf end")
        assert result.total_bytes == 1_000_003
        assert result.tail.endswith(b"end")


async def test_short_commands_keep_their_only_line(box: Box) -> None:
    texts = [(await box.sh(f"echo {n}")).text() for n in range(20)]
    assert texts == [f"{n}\n" for n in range(20)]


async def test_stdout_and_stderr_come_in_the_order_they_were_written(box: Box) -> None:
    result = await box.sh("for n in 1 2 3 4 5; do echo out$n; echo err$n >&2; done")
    assert result.text().split() == [f"{kind}{n}" for n in range(1, 6) for kind in ("out", "err")]


async def test_output_can_be_followed_while_the_command_runs(box: Box) -> None:
    handle = await box.sandbox.run(["/bin/sh", "-c", "echo first; sleep 1; echo second"])
    chunks = [chunk async for chunk in handle.output()]
    assert b"".join(chunks) == b"first\nsecond\n"
    assert len(chunks) == 2
    assert (await handle.wait()).exit_code == 0
    assert (await handle.wait()).exit_code == 0


async def test_the_log_holds_everything_and_lies_outside_the_sandbox(box: Box) -> None:
    result = await box.sh("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i + 1)); done")
    assert result.truncated
    assert result.total_lines == 20000
    assert len(result.log_path.read_bytes().splitlines()) == 20000
    assert result.log_path.is_relative_to(box.sandbox.spec.state_dir)


async def test_arguments_arrive_as_given_and_no_shell_looks_at_them(box: Box) -> None:
    result = await run_to_end(box.sandbox, ["printf", "%s|", "a b", "$HOME", "*", "'", "", "é\n"])
    assert result.text() == "a b|$HOME|*|'||é\n|"


async def test_a_program_that_is_not_there_gives_127_and_a_line(box: Box) -> None:
    result = await run_to_end(box.sandbox, ["no-such-program"])
    assert result.exit_code == 127
    assert "no-such-program" in result.text()


async def test_a_question_gets_end_of_file_instead_of_an_answer(box: Box) -> None:
    result = await box.sh("read answer; echo $?; git clone https://nobody@localhost/x 2>&1 | tail -1")
    assert result.text().splitlines()[0] == "1"
    assert not result.timed_out


async def test_a_time_limit_ends_children_and_grandchildren(box: Box) -> None:
    result = await box.sh("sleep 300 & (sleep 301 & sleep 302) & sleep 303", timeout_s=1)
    assert result.timed_out
    assert "time limit of 1 s" in result.note
    assert await box.processes() == ""


async def test_a_flood_before_the_time_limit_stays_bounded(box: Box) -> None:
    result = await box.sh("head -c 50000000 /dev/zero; sleep 300", timeout_s=3)
    assert result.timed_out
    assert result.total_bytes == 50_000_000
    assert len(result.head) + len(result.tail) < 100_000


async def test_cancelling_the_waiter_ends_the_command(box: Box) -> None:
    handle = await box.sandbox.run(["/bin/sh", "-c", "echo started; exec sleep 300"])
    async for _ in handle.output():
        break
    waiting = asyncio.create_task(handle.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await box.processes() == ""


async def test_killing_is_idempotent_and_noted(box: Box) -> None:
    handle = await box.sandbox.run(["sleep", "300"])
    await handle.kill()
    await handle.kill()
    result = await handle.wait()
    assert result.killed and not result.timed_out
    assert result.note == "ended on request"


async def test_a_process_substitution_may_finish_writing(box: Box) -> None:
    result = await run_to_end(
        box.sandbox, ["bash", "-c", "exec > >(tee log) 2>&1; echo through tee"], timeout_s=30
    )
    assert result.text() == "through tee\n"
    assert (box.workspace / "log").read_text() == "through tee\n"


async def test_a_command_that_kills_everything_it_can_ends_only_itself(box: Box) -> None:
    result = await box.sh("kill -9 -1; sleep 300")
    assert result.exit_code == 137
    assert (await box.sh("echo alive")).text() == "alive\n"


async def test_a_child_that_outlives_its_killed_shell_does_not_hold_the_result_back(box: Box) -> None:
    result = await box.sh("sleep 300 & kill -9 $PPID; sleep 300", timeout_s=60)
    assert result.exit_code == 137
    assert not result.timed_out
    assert await box.processes() == ""


async def test_one_commands_end_leaves_other_commands_alone(box: Box) -> None:
    longer = await box.sandbox.run(["/bin/sh", "-c", "sleep 2; echo survived"])
    channel = await box.sandbox.open_channel(["cat"])
    short = await box.sh("setsid sleep 300 & echo short")
    assert short.text() == "short\n"
    await channel.send(b"ping\n")
    assert await channel.receive_line() == b"ping\n"
    assert (await longer.wait()).text() == "survived\n"
    assert await channel.close() == 0
    assert await box.processes() == ""


async def test_memory_beyond_the_limit_kills_the_command_and_says_why(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(memory_bytes=256 << 20))
    result = await box.sh("python3 -c 'x = bytearray(1 << 30)'")
    assert result.exit_code == 137
    assert "memory limit" in result.note
    assert (await box.sh("echo alive")).text() == "alive\n"


async def test_the_environment_is_the_images_plus_what_was_asked_for(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    box = await make_box(env={"FROM_SPEC": "1", "BOTH": "spec"})
    result = await box.sh("env", env={"BOTH": "command"})
    found = dict(line.split("=", 1) for line in result.text().splitlines())
    assert found["FROM_SPEC"] == "1"
    assert found["BOTH"] == "command"
    assert found["TERM"] == "dumb"
    assert found["HOME"] == "/home/whimbrel"
    assert "OPENAI_API_KEY" not in found and "GIT_DIR" not in found


async def test_a_missing_variable_is_explained(box: Box) -> None:
    result = await box.sh("set -u; echo $WANTED_HERE")
    assert result.exit_code != 0
    assert "WANTED_HERE" in result.note


async def test_a_missing_working_directory_is_named(box: Box) -> None:
    with pytest.raises(ToolError, match="nowhere does not exist"):
        await box.sh("true", cwd="nowhere")
    await box.sh("mkdir -p sub")
    assert (await box.sh("pwd", cwd="sub")).text().endswith("/sub\n")
    await box.sh("rmdir ../sub", cwd="sub")
    assert (await box.sh("echo fine")).text() == "fine\n"


async def test_a_helper_answers_lines_and_its_errors_can_be_read(box: Box) -> None:
    program = (
        "import sys\n"
        "for line in sys.stdin:\n"
        "    print(line.strip()[::-1], flush=True)\n"
        "sys.stderr.write('bye')\n"
        "sys.exit(5)\n"
    )
    channel = await box.sandbox.open_channel(["python3", "-c", program])
    for word in (b"abc", b"x" * 2_000_000):
        await channel.send(word + b"\n")
        assert await channel.receive_line() == word[::-1] + b"\n"
    assert await channel.close() == 5
    assert channel.errors() == b"bye"
    assert await channel.receive() == b""


async def test_closing_a_helper_that_does_not_listen_ends_its_tree(box: Box) -> None:
    channel = await box.sandbox.open_channel(["/bin/sh", "-c", "trap '' TERM HUP; sleep 300 & sleep 300"])
    assert await channel.close() != 0
    assert await box.processes() == ""


async def test_talking_to_a_helper_that_is_gone_says_what_it_said_last(box: Box) -> None:
    channel = await box.sandbox.open_channel(["/bin/sh", "-c", "echo no such module >&2; exit 1"])
    assert await channel.receive() == b""
    with pytest.raises(ToolError, match="no such module"):
        for _ in range(100):
            await channel.send(b"x" * 100_000)
            await asyncio.sleep(0.01)


async def test_files_are_written_as_the_sandbox_user_and_read_back(box: Box) -> None:
    await box.sandbox.write("deep/er/file.bin", bytes(range(256)), executable=True)
    assert await box.sandbox.read("deep/er/file.bin") == bytes(range(256))
    assert (await box.sh("stat -c %u:%a deep/er/file.bin; id -u")).text().split()[0].endswith(":755")
    await box.sandbox.write("/tmp/there", b"temporary")
    assert await box.sandbox.read("/tmp/there") == b"temporary"
    assert b"root:" in await box.sandbox.read("/etc/passwd")


async def test_reading_what_is_not_a_file_is_the_right_error(box: Box) -> None:
    await box.sh("mkdir folder; mkfifo pipe; head -c 70000000 /dev/zero > large")
    with pytest.raises(FileNotFoundError):
        await box.sandbox.read("missing")
    with pytest.raises(FileNotFoundError):
        await box.sandbox.read("/tmp/missing")
    with pytest.raises(IsADirectoryError):
        await box.sandbox.read("folder")
    with pytest.raises(ToolError, match="regular"):
        await box.sandbox.read("pipe")
    with pytest.raises(ToolError, match="64 MiB"):
        await box.sandbox.read("large")


async def test_writing_outside_the_workspace_is_refused(box: Box) -> None:
    for path in ("/etc/passwd", "../../other", "/home/whimbrel/x"):
        with pytest.raises(ToolError, match="neither in the workspace"):
            await box.sandbox.write(path, b"x")


async def test_a_link_out_of_the_workspace_is_followed_inside_never_on_the_host(
    box: Box, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host only")
    os.symlink(secret, box.workspace / "link")
    os.symlink(tmp_path, box.workspace / "folder")
    os.symlink("/etc/hostname", box.workspace / "inside")
    with pytest.raises(FileNotFoundError):
        await box.sandbox.read("folder/secret")
    with pytest.raises(FileNotFoundError):
        await box.sandbox.read("link")
    assert await box.sandbox.read("inside") == b"sandbox\n"
    await box.sandbox.write("link", b"replaced")
    assert secret.read_text() == "host only"

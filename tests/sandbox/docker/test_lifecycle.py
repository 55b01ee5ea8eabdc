"""The container of a run: made, described, shared with nobody, and gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import SandboxDied, SandboxUnavailable
from whimbrel.sandbox.base.identity import sandbox_identity
from whimbrel.sandbox.docker import DockerSandbox
from whimbrel.sandbox.docker import container as container_module
from whimbrel.sandbox.docker.container import Container, ExecState
from whimbrel.sandbox.docker.host_pids import InitProcess
from whimbrel.sandbox.protocol import Mount

from .conftest import WORKDIR, Box, MakeBox, MakeImage, NoSnapshots, docker, new_spec

pytestmark = pytest.mark.docker


async def test_a_command_runs_at_the_repositorys_own_path_and_its_files_belong_to_the_sandbox_user(
    box: Box,
) -> None:
    result = await box.sh("pwd; id -u; mkdir made; echo content > made/file")
    uid, gid = sandbox_identity()
    assert result.exit_code == 0
    assert result.text().split() == [WORKDIR, str(uid)]
    made = box.workspace / "made" / "file"
    assert made.read_text() == "content\n"
    assert (made.stat().st_uid, made.stat().st_gid) == (uid, gid)


async def test_the_sandbox_says_which_image_it_really_uses(box: Box, base_image: str) -> None:
    description = box.sandbox.describe()
    assert description.kind == "docker"
    assert description.isolated
    assert description.image == base_image
    assert description.image_digest == docker("inspect", "-f", "{{.Id}}", base_image)
    assert description.workdir == WORKDIR


async def test_stopping_removes_the_container_and_may_be_repeated(box: Box) -> None:
    name = box.sandbox.container_name
    assert name is not None and docker("ps", "-q", "--filter", f"name={name}")
    await box.stop()
    await box.stop()
    assert not docker("ps", "-aq", "--filter", f"name={name}")
    with pytest.raises(SandboxUnavailable):
        await box.sh("true")


async def test_stopping_ends_a_command_that_still_runs(box: Box) -> None:
    handle = await box.sandbox.run(["sleep", "300"])
    channel = await box.sandbox.open_channel(["cat"])
    await channel.send(b"x")
    assert await channel.receive() == b"x"
    await box.stop()
    result = await handle.wait()
    assert result.killed
    assert result.note == "the sandbox was stopped"
    assert await channel.receive() == b""
    assert await channel.close() == 137


async def test_parallel_runs_with_the_same_run_id_do_not_collide(make_box: MakeBox) -> None:
    boxes = await asyncio.gather(*(make_box(run_id="same") for _ in range(3)))
    results = await asyncio.gather(*(box.sh(f"echo {n} > mine; cat mine") for n, box in enumerate(boxes)))
    assert [result.text().strip() for result in results] == ["0", "1", "2"]
    assert len({box.sandbox.container_name for box in boxes}) == 3


async def test_a_taken_container_name_leads_to_another_name(
    make_box: MakeBox, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = docker("create", "--name", "whimbrel-clash-taken", base_image, "true")
    suffixes = iter(["taken", "taken", "free1234"])
    monkeypatch.setattr(container_module, "new_suffix", lambda: next(suffixes))
    try:
        box = await make_box(run_id="clash")
        assert box.sandbox.container_name == "whimbrel-clash-free1234"
    finally:
        docker("rm", "-f", taken)


_ABANDON = """
import asyncio, sys
from pathlib import Path
from whimbrel.sandbox.docker import DockerSandbox
from whimbrel.sandbox.protocol import SandboxSpec

async def main():
    folder = Path(sys.argv[1])
    places = (folder / "copy0", "/home/someone/demo", folder / "abandoned")
    spec = SandboxSpec(*places, "abandoned", image=sys.argv[2])
    sandbox = DockerSandbox(spec, None)
    await sandbox.start()
    await sandbox.run(["sleep", "300"])
    print(sandbox.container_name, flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


def _abandoned_run(folder: Path, image: str) -> tuple[subprocess.Popen[str], str]:
    """A process with a sandbox that it will never stop, and the container's name."""
    process = subprocess.Popen(
        [sys.executable, "-c", _ABANDON, str(folder), image], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


async def test_the_container_of_a_run_killed_with_sigkill_is_removed_at_the_next_start(
    make_box: MakeBox, tmp_path: Path, base_image: str
) -> None:
    new_spec(tmp_path)
    other, name = _abandoned_run(tmp_path, base_image)
    try:
        await make_box()
        assert docker("ps", "-q", "--filter", f"name={name}"), "a living run's container was taken away"
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    await make_box()
    assert not docker("ps", "-aq", "--filter", f"name={name}")


async def test_a_removed_container_ends_the_run_with_its_last_output(box: Box) -> None:
    await box.sh("echo the last words")
    docker("rm", "-f", str(box.sandbox.container_name))
    with pytest.raises(SandboxDied) as caught:
        await box.sh("true")
    assert "removed from outside" in caught.value.message
    assert "the last words" in caught.value.message
    assert caught.value.status == "sandbox_died"


async def test_a_killed_container_ends_the_run_with_its_status_and_last_log_lines(box: Box) -> None:
    docker("kill", str(box.sandbox.container_name))
    with pytest.raises(SandboxDied) as caught:
        await box.sh("true")
    assert "exited, exit code 137" in caught.value.message
    assert "whimbrel: ready" in caught.value.message
    assert "\n" not in caught.value.one_line()


async def test_a_container_killed_under_a_command_is_no_test_result(box: Box) -> None:
    handle = await box.sandbox.run(["sleep", "300"])
    docker("kill", str(box.sandbox.container_name))
    with pytest.raises(SandboxDied):
        await handle.wait()


def test_the_end_of_a_container_shows_in_this_machines_process_table(box: Box) -> None:
    """The daemon may call a container running for a while after its last process has gone."""
    state = docker("inspect", "-f", "{{.State.Pid}} {{.Id}}", str(box.sandbox.container_name)).split()
    init = InitProcess.of(state[1], int(state[0]))
    assert init is not None
    assert not init.ending()
    os.kill(init.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while not init.ending():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert InitProcess.of(state[1], os.getpid()) is None


async def test_an_image_without_a_shell_is_refused_with_the_reason(
    make_box: MakeBox, make_image: MakeImage
) -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        await make_box(image=make_image({"etc/nothing": b"here"}))
    assert "/bin/sh" in caught.value.message
    assert "cannot run" in caught.value.message
    assert "No such file" in caught.value.message
    assert not docker("ps", "-aq", "--filter", "label=whimbrel.kind=sandbox", "--filter", "status=created")


async def test_an_image_whose_shell_ends_at_once_is_refused_with_its_log(
    make_box: MakeBox, make_image: MakeImage, busybox: bytes
) -> None:
    image = make_image({"bin/busybox": busybox, "bin/sh": b"#!/bin/busybox sh\necho broken shell\nexit 7\n"})
    with pytest.raises(SandboxUnavailable) as caught:
        await make_box(image=image)
    assert "exit code 7" in caught.value.message
    assert "broken shell" in caught.value.message


async def test_an_entrypoint_of_the_image_is_ignored(
    make_box: MakeBox, base_image: str, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        f'FROM {base_image}\nENTRYPOINT ["/bin/false"]\nENV FROM_IMAGE=kept\n'
    )
    docker("build", "-q", "-t", "whimbrel-test:entrypoint", str(tmp_path))
    try:
        box = await make_box(image="whimbrel-test:entrypoint")
        assert (await box.sh("echo $FROM_IMAGE")).text() == "kept\n"
        await box.stop()
    finally:
        docker("rmi", "-f", "whimbrel-test:entrypoint")


async def test_an_image_that_is_not_there_is_named(make_box: MakeBox) -> None:
    with pytest.raises(SandboxUnavailable, match="nobody/nothing:1 is not on this machine"):
        await make_box(image="nobody/nothing:1")


async def test_without_a_daemon_there_is_one_clear_line(
    make_box: MakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(SandboxUnavailable) as caught:
        await make_box()
    assert "no container daemon answers" in caught.value.message
    assert str(tmp_path) in caught.value.message
    assert "bwrap" in caught.value.hint
    assert caught.value.exit_code == 9


async def test_a_daemon_that_hangs_is_reported_not_waited_for(
    make_box: MakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whimbrel.sandbox.daemon.CONNECT_TIMEOUT_S", 1)
    server = await asyncio.start_unix_server(lambda reader, writer: None, tmp_path / "mute.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/mute.sock")
    try:
        with pytest.raises(SandboxUnavailable, match="did not answer in time"):
            await make_box()
    finally:
        server.close()


async def test_mounts_below_roots_home_can_be_reached_and_not_written(
    make_box: MakeBox, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tool").write_text("#!/bin/sh\necho from the tool\n")
    (tools / "tool").chmod(0o755)
    box = await make_box(workdir="/root/project", mounts=(Mount(tools, "/root/.tools/v1"),))
    result = await box.sh("/root/.tools/v1/tool; echo x > /root/.tools/v1/new; pwd; touch here")
    assert result.text().splitlines()[0] == "from the tool"
    assert "Read-only file system" in result.text()
    assert (box.workspace / "here").exists()
    assert not (tools / "new").exists()


@pytest.mark.parametrize("source", ["/var/run/docker.sock", "/var/run", "/run", "/"])
async def test_a_mount_that_would_show_the_container_socket_is_refused(
    make_box: MakeBox, source: str
) -> None:
    with pytest.raises(SandboxUnavailable, match="container socket"):
        await make_box(mounts=(Mount(Path(source), "/opt/given"),))


async def test_a_workspace_the_sandbox_user_cannot_write_is_refused(tmp_path: Path, base_image: str) -> None:
    spec = new_spec(tmp_path, image=base_image)
    if os.geteuid() == 0:
        os.chown(spec.workspace, 0, 0)
    else:
        spec.workspace.chmod(0o555)
    sandbox = DockerSandbox(spec, NoSnapshots())
    with pytest.raises(SandboxUnavailable, match="not writable"):
        await sandbox.start()
    assert not docker("ps", "-aq", "--filter", f"label=whimbrel.run={spec.run_id}")


@pytest.mark.parametrize("applets", [True, False], ids=["busybox", "nothing-but-a-shell"])
async def test_an_image_with_busybox_only_works(
    make_box: MakeBox, make_image: MakeImage, busybox: bytes, applets: bool
) -> None:
    content: dict[str, bytes | str] = {"bin/busybox": busybox, "bin/sh": "busybox"}
    if applets:
        content |= {
            f"bin/{name}": "busybox" for name in ("cat", "cp", "mkdir", "mv", "sleep", "setsid", "ls")
        }
    box = await make_box(image=make_image(content))
    result = await box.sh("echo hello > file; while read -r line; do echo got $line; done < file; exit 4")
    assert (result.exit_code, result.text()) == (4, "got hello\n")
    assert (await box.sandbox.read("file")) == b"hello\n"
    timed = await box.sh("while :; do :; done", timeout_s=0.5)
    assert timed.timed_out
    assert (await box.sh("echo still fine")).text() == "still fine\n"
    if applets:
        await box.sandbox.write("sub/written", b"\x00\xff", executable=True)
        assert (box.workspace / "sub/written").read_bytes() == b"\x00\xff"
        left = await box.sh("setsid sleep 300 & echo started")
        assert left.text() == "started\n"
        assert (
            await box.sh("for p in /proc/[0-9]*; do read -r l < $p/cmdline; echo $l; done 2>/dev/null")
        ).text().count("sleep300") == 0


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.4])
async def test_a_cancelled_start_leaves_no_container(tmp_path: Path, base_image: str, after_s: float) -> None:
    spec = new_spec(tmp_path, image=base_image)
    starting = asyncio.create_task(DockerSandbox(spec, NoSnapshots()).start())
    await asyncio.sleep(after_s)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    if starting.cancelled():
        assert not docker("ps", "-aq", "--filter", f"label=whimbrel.run={spec.run_id}")
    else:
        docker("rm", "-f", docker("ps", "-aq", "--filter", f"label=whimbrel.run={spec.run_id}"))


async def test_a_command_that_the_daemon_has_only_heard_of_is_waited_for_and_ended(
    monkeypatch: pytest.MonkeyPatch,
):
    begun = ended = False
    looks: list[bool] = []

    async def end(_: Container, mark: str) -> bool:
        nonlocal ended
        looks.append(begun)
        ended = begun
        return True

    async def exec_state(_: Container, exec_id: str) -> ExecState:
        nonlocal begun
        state = ExecState(begun and not ended, 137 if ended else None)
        begun = True
        return state

    monkeypatch.setattr(Container, "end", end)
    monkeypatch.setattr(Container, "exec_state", exec_state)
    assert await Container.__new__(Container).end_exec("exec", "mark")
    assert looks == [False, True], "the first look found nothing to end"

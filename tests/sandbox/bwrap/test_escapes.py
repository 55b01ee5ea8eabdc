"""What hostile project code may try from inside, and what it gets."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from whimbrel.sandbox.base.identity import SANDBOX_UID
from whimbrel.sandbox.protocol import Mount, SandboxLimits

from .. import escape_cases
from .conftest import PREFIX, WORKDIR, Box, MakeBox

pytestmark = pytest.mark.bwrap

AS_ROOT = os.geteuid() == 0
VICTIM_MARK = f"300{os.getpid()}.5"
PYTHON_FIRST = {"PATH": f"{PREFIX}/bin:{os.environ['PATH']}"}
Victim = subprocess.Popen[bytes]


@pytest.fixture
def victim() -> Iterator[Victim]:
    """A process of the machine, outside of every sandbox."""
    process = subprocess.Popen(["sleep", VICTIM_MARK])
    yield process
    process.kill()
    process.wait()


async def test_commands_run_as_a_real_non_root_user_even_when_started_by_root(box: Box) -> None:
    result = await box.sh(
        "id -u; touch made-inside; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"
    )
    lines = result.text().split("\n")
    expected = SANDBOX_UID if AS_ROOT else os.geteuid()
    assert lines[0] == str(expected)
    assert (box.workspace / "made-inside").stat().st_uid == expected
    facts = dict(line.split(":\t") for line in lines[1:] if line)
    assert int(facts["CapEff"], 16) == 0
    assert int(facts["CapBnd"], 16) == 0
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == "2"


async def test_the_uid_outside_is_not_root_either(box: Box) -> None:
    handle = await box.sandbox.run(["sleep", "60"])
    try:
        pid = None
        while pid is None or "sleep" not in Path(f"/proc/{pid}/cmdline").read_text():
            pid = handle.inside_pid()
            await asyncio.sleep(0.01)
        uids = next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:")
        )
        expected = SANDBOX_UID if AS_ROOT else os.geteuid()
        assert set(uids.split()[1:]) == {str(expected)}
    finally:
        await handle.kill()


async def test_the_network_is_unreachable_and_loopback_works(box: Box) -> None:
    server = socket.create_server(("0.0.0.0", 0))
    port = server.getsockname()[1]
    here = socket.gethostbyname(socket.gethostname())
    result = await box.py(
        f"""
import socket
for address in ("127.0.0.1", {here!r}, "1.1.1.1"):
    try:
        socket.create_connection((address, {port}), 3)
        print("CONNECTED", address)
    except OSError as error:
        print("refused", address)
own = socket.create_server(("127.0.0.1", 0))
socket.create_connection(own.getsockname(), 3)
print("own loopback works")
"""
    )
    server.close()
    assert "CONNECTED" not in result.text()
    assert "own loopback works" in result.text()


@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_ALG", "AF_PACKET"])
async def test_socket_families_that_ignore_network_namespaces_are_refused(box: Box, family: str) -> None:
    kind = "SOCK_SEQPACKET" if family == "AF_ALG" else "SOCK_STREAM"
    result = await box.py(f"import socket; socket.socket(socket.{family}, socket.{kind})")
    assert result.exit_code == 1
    assert "Address family not supported" in result.text()


async def test_home_directories_secrets_and_state_are_not_there(box: Box, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the host's secret")
    secret.chmod(0o644)
    places = [
        str(Path.home() / ".ssh"),
        str(Path.home() / ".bashrc"),
        str(secret),
        str(box.state),
        "/etc/shadow",
        "/etc/sudoers",
        "/var/lib/docker",
        "/var/spool",
        "/run/docker.sock",
        "/run/user",
        "/srv",
        "/mnt",
        "/sys/kernel",
        "/boot",
    ]
    result = await box.sh(
        'for place; do [ -e "$place" ] && echo "SEEN $place"; done; echo checked'.replace(
            "for place", "for place in " + " ".join(places)
        )
    )
    assert result.text().strip() == "checked"


async def test_system_directories_cannot_be_written_or_remounted(box: Box) -> None:
    result = await box.sh(
        "for place in /usr /etc /opt / /dev /run /home /proc/sys/kernel; do"
        ' touch "$place/whimbrel-was-here" 2>/dev/null && echo "WROTE $place"; done;'
        " mount -o remount,rw /usr 2>&1; mount -t tmpfs none /usr 2>&1; umount /etc/passwd 2>&1;"
        " echo x > /proc/sys/kernel/core_pattern; echo 1000 > /proc/sys/user/max_user_namespaces; true"
    )
    assert "WROTE" not in result.text()
    assert not Path("/usr/whimbrel-was-here").exists()
    again = await box.sh("touch /usr/x || echo still read-only")
    assert "still read-only" in again.text()


async def test_mount_calls_are_refused_by_the_kernel_not_only_by_the_tools(box: Box) -> None:
    result = await box.py(
        """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, *args):
    if getattr(libc, name)(*args) != -1:
        print("ALLOWED", name)
        return
    print(name, errno.errorcode[ctypes.get_errno()])
MS_REMOUNT_BIND = ctypes.c_ulong(32 | 4096)
tried("mount", None, b"/usr", None, MS_REMOUNT_BIND, None)
tried("umount2", b"/etc/passwd", 2)
tried("unshare", 0x10000000)
tried("unshare", 0x00020000)
tried("setns", os.open("/proc/1/ns/user", os.O_RDONLY), 0)
if os.uname().machine == "x86_64":
    tried("syscall", ctypes.c_long(248), b"user", b"x", b"y", 1, -3)
tried("prctl", 24, 21, 0, 0, 0)
"""
    )
    assert "ALLOWED" not in result.text()
    assert result.exit_code == 0, result.text()


async def test_nested_user_namespaces_are_refused(box: Box) -> None:
    result = await box.sh(
        "unshare -Ur id; unshare -Urm sh -c 'mount -o remount,rw /usr && echo REMOUNTED'; true"
    )
    assert "uid=0" not in result.text()
    assert "REMOUNTED" not in result.text()


async def test_setuid_programs_give_nothing(box: Box) -> None:
    result = await box.sh("cp /bin/sh ./mine && chmod 4755 ./mine && ./mine -c 'id -u'; su -c id 2>&1; true")
    assert "uid=0" not in result.text()
    assert result.text().split()[0] == str(SANDBOX_UID if AS_ROOT else os.geteuid())


async def test_other_processes_of_the_machine_are_neither_seen_nor_touched(box: Box, victim: Victim) -> None:
    result = await box.py(
        f"""
import os
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[-1] < 100)
try:
    os.kill({victim.pid}, 9)
    print("KILLED")
except OSError:
    print("refused")
"""
    )
    assert result.text().split() == ["True", "refused"]
    assert victim.poll() is None


async def test_processes_of_the_machine_cannot_be_traced(box: Box, victim: Victim) -> None:
    result = await box.py(
        f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for pid in ({victim.pid}, {os.getpid()}):
    print(libc.ptrace(16, pid, 0, 0))
"""
    )
    assert result.text().split() == ["-1", "-1"]


async def test_kernel_memory_and_logs_are_unreadable(box: Box) -> None:
    result = await box.sh(
        "for f in /proc/kcore /proc/kmsg /dev/mem /dev/kmsg /proc/1/mem; do head -c 16 $f | od -c; done;"
        " dmesg; true"
    )
    readable = [line for line in result.text().splitlines() if line.startswith("0000000 ")]
    assert readable == []
    assert "Linux version" not in result.text()


async def test_devices_are_the_harmless_few(box: Box) -> None:
    result = await box.sh("ls /dev; mknod /tmp/disk b 8 0 && echo MADE; true")
    names = set(result.text().split()) - {"mknod:", "/tmp/disk:", "Operation", "not", "permitted"}
    harmless = {
        "core",
        "fd",
        "full",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
    }
    assert names <= harmless | {"urandom", "zero", "console", "mqueue"}


async def test_a_daemonised_child_ends_with_its_command(box: Box) -> None:
    marker = f"31{os.getpid()}.25"
    result = await box.sh(
        f"(setsid sleep {marker} >/dev/null 2>&1 &); (setsid sleep {marker} &); echo started"
    )
    assert result.exit_code == 0
    assert "started" in result.text()
    assert not running_with(marker)


async def test_global_git_settings_do_not_reach_the_user_or_the_next_run(make_box: MakeBox) -> None:
    first = await make_box()
    result = await first.sh("git config --global core.pager evil && git config --global core.pager")
    assert "evil" in result.text()
    assert not (Path.home() / ".gitconfig").exists() or "evil" not in (Path.home() / ".gitconfig").read_text()
    second = await make_box()
    assert (await second.sh("git config --global core.pager || echo unset")).text().strip() == "unset"


async def test_a_link_planted_in_the_workspace_leads_nowhere_on_the_host(box: Box, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the host's secret")
    await box.sh(f"ln -s {secret} leak; ln -s /etc/shadow shadow; ln -s {tmp_path} dir")
    for name in ("leak", "shadow", "dir/secret.txt"):
        with pytest.raises(FileNotFoundError):
            await box.sandbox.read(name)
    await box.sandbox.write("leak", b"overwritten")
    assert secret.read_text() == "the host's secret"
    assert not (box.workspace / "leak").is_symlink()


async def test_a_mount_is_read_only_and_reachable_below_a_closed_directory(
    make_box: MakeBox, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    (closed / "tools").mkdir(parents=True)
    (closed / "tools" / "data.txt").write_text("tool data\n")
    (closed / "private.txt").write_text("private")
    closed.chmod(0o700)
    box = await make_box(mounts=(Mount(closed / "tools", "/root/tools"),))
    result = await box.sh(
        "cat /root/tools/data.txt; touch /root/tools/x 2>/dev/null && echo WROTE; ls /root; true"
    )
    assert result.text().split() == ["tool", "data", "tools"]


async def test_a_home_directory_below_a_system_directory_is_hidden_but_not_the_mounts_in_it(
    make_box: MakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path("/usr/share/doc")
    assert any(home.iterdir())
    monkeypatch.setenv("HOME", str(home))
    tools = tmp_path / "tools"
    tools.mkdir()
    box = await make_box(mounts=(Mount(tools, f"{home}/venv"),))
    result = await box.sh(f"ls {home}; touch {home}/x 2>/dev/null && echo WROTE; true")
    assert result.text() == "venv\n"


async def test_the_preloading_of_libraries_happens_inside_only(make_box: MakeBox, tmp_path: Path) -> None:
    box = await make_box(
        env={"LD_PRELOAD": f"{WORKDIR}/evil.so", "PYTHONPATH": WORKDIR, "BASH_ENV": f"{WORKDIR}/rc"}
    )
    proof = tmp_path / "outside"
    await box.sandbox.write("sitecustomize.py", f"open({str(proof)!r}, 'w')".encode())
    result = await box.sh("echo $LD_PRELOAD")
    assert "evil.so" in result.text()
    assert not proof.exists()


async def test_ten_thousand_files_are_made_and_cleaned_up(make_box: MakeBox) -> None:
    box = await make_box()
    result = await box.py(
        "import pathlib\nfor n in range(10_000): pathlib.Path(f'/tmp/{n}').write_text('x')\nprint('made')"
    )
    assert result.text().strip() == "made"
    await box.sandbox.stop()
    assert [path.name for path in box.state.iterdir()] == ["logs"]


@pytest.fixture
def host(tmp_path: Path, victim: Victim) -> Iterator[dict[str, str]]:
    """A secret, a listening port and a process of the machine, as the shared attempts expect them."""
    secret = tmp_path / "secret"
    secret.write_text(escape_cases.SECRET_TEXT)
    secret.chmod(0o644)
    with (
        socket.create_server(("0.0.0.0", 0)) as server,
        escape_cases.host_objects(VICTIM_MARK) as objects,
    ):
        _, _, addresses = socket.gethostbyname_ex(socket.gethostname())
        yield {
            "SECRET_FILE": str(secret),
            "HOST_PORT": str(server.getsockname()[1]),
            "HOST_PID": str(victim.pid),
            **objects,
            "HOST_ADDRESSES": " ".join(addresses),
        }


@pytest.mark.parametrize("case", escape_cases.ATTEMPTS, ids=lambda case: case.name)
async def test_a_sandboxed_command_cannot(
    box: Box, host: dict[str, str], case: escape_cases.EscapeCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "not-for-commands")
    result = await box.sh(case.script, env={**host, **PYTHON_FIRST}, timeout_s=case.timeout_s)
    assert "ESCAPED" not in result.text()
    assert result.text().split()[-1] == "contained", result.text()


async def test_a_gigabyte_of_output_is_bounded_in_memory_and_on_disk(box: Box) -> None:
    case = escape_cases.ONE_GIGABYTE_OF_OUTPUT
    result = await box.sh(case.script, timeout_s=case.timeout_s)
    assert result.total_bytes == 1_000_000_009
    assert result.tail.endswith(b"last-line")
    assert len(result.head) + len(result.tail) < 1 << 20
    assert result.log_path.stat().st_size < 512 << 20
    assert result.note


async def test_ten_thousand_files_in_the_workspace_simply_work(box: Box) -> None:
    case = escape_cases.TEN_THOUSAND_FILES
    assert (await box.sh(case.script, timeout_s=case.timeout_s)).text().strip() == "10000"


async def test_a_daemon_without_the_commands_environment_ends_with_it(box: Box) -> None:
    case = escape_cases.DAEMONISED_CHILD
    result = await box.sh(case.script, timeout_s=case.timeout_s)
    assert "started" in result.text()
    assert not result.timed_out
    heartbeat = box.workspace / "heartbeat"
    beats = heartbeat.read_bytes() if heartbeat.exists() else b""
    await asyncio.sleep(1.5)
    assert (heartbeat.read_bytes() if heartbeat.exists() else b"") == beats


async def test_limits_of_the_spec_are_the_limits_inside(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(file_bytes=1 << 20))
    result = await box.sh("head -c 3000000 /dev/zero > big; stat -c %s big; ulimit -c")
    assert result.text().split()[-2:] == [str(1 << 20), "0"]


def running_with(marker: str) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in words:
                found.append(entry.name)
    return found

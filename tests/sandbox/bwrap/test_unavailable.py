"""A bubblewrap that cannot start is a clear refusal, never a weaker sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import SandboxUnavailable
from whimbrel.sandbox.bwrap import probe_bwrap
from whimbrel.sandbox.bwrap.program import namespace_obstacle
from whimbrel.sandbox.select import choose_kind

from .conftest import Box, MakeBox

pytestmark = pytest.mark.bwrap

REAL = shutil.which("bwrap") or "/usr/bin/bwrap"


@pytest.fixture
def fake_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PATH directory before all others, for a program that behaves as bubblewrap does on other machines."""
    directory = tmp_path / "path"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    yield directory


def bwrap_that_says(directory: Path, words: str) -> None:
    """Answers questions like the real one, and fails to start anything with ``words``."""
    script = directory / "bwrap"
    script.write_text(
        f'#!/bin/sh\ncase $1 in --help|--version) exec {REAL} "$1";; esac\necho "{words}" >&2\nexit 1\n'
    )
    script.chmod(0o755)


async def test_without_the_program_the_sandbox_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable) as caught:
        await choose_kind("bwrap", image=None, allow_build=False, report=print)
    assert "not installed" in caught.value.message
    assert "bubblewrap" in caught.value.hint
    assert caught.value.exit_code == 9


@pytest.mark.parametrize(
    "words",
    [
        "bwrap: setting up uid map: Permission denied",
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow "
        "non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl "
        "kernel.unprivileged_userns_clone=1'.",
        "bwrap: Creating new namespace failed: Operation not permitted",
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
    ],
)
async def test_the_reason_is_bubblewraps_own_words_and_the_setting_behind_it(
    fake_path: Path, words: str
) -> None:
    bwrap_that_says(fake_path, words)
    with pytest.raises(SandboxUnavailable) as caught:
        await probe_bwrap()
    assert words.removeprefix("bwrap: ")[:60] in caught.value.message
    assert "user namespaces" in caught.value.message
    assert "\n" not in caught.value.one_line()


async def test_a_masked_proc_is_named_as_the_reason(fake_path: Path) -> None:
    bwrap_that_says(fake_path, "bwrap: Can't mount proc on /newroot/proc: Operation not permitted")
    with pytest.raises(SandboxUnavailable, match="surrounding container masks parts of /proc"):
        await probe_bwrap()


async def test_a_sandbox_that_stops_working_mid_run_never_runs_the_command_outside(
    make_box: MakeBox, fake_path: Path, tmp_path: Path
) -> None:
    (fake_path / "bwrap").write_text(f'#!/bin/sh\nexec {REAL} "$@"\n')
    (fake_path / "bwrap").chmod(0o755)
    box: Box = await make_box()
    assert (await box.sh("echo inside")).text() == "inside\n"
    bwrap_that_says(fake_path, "bwrap: Creating new namespace failed: Operation not permitted")
    proof = tmp_path / "outside"
    with pytest.raises(SandboxUnavailable):
        await box.sh(f"touch {proof}")
    assert not proof.exists()


async def test_a_version_too_old_to_report_its_state_is_refused(fake_path: Path) -> None:
    (fake_path / "bwrap").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.3.0 || echo "    --bind SRC DEST"\n'
    )
    (fake_path / "bwrap").chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap 0\.3\.0 is too old"):
        await probe_bwrap()


PROBE = """
from whimbrel.sandbox.base.errors import SandboxUnavailable
from whimbrel.sandbox.bwrap import probe_bwrap
try:
    print("STARTED", asyncio.run(probe_bwrap()))
except SandboxUnavailable as error:
    print(error.exit_code, error.one_line())
"""

WITHOUT_NAMESPACES = """
import asyncio, ctypes, sys
assert ctypes.CDLL(None).unshare(0x10000000) == 0
print("ready", flush=True)
sys.stdin.readline()
open("/proc/sys/user/max_user_namespaces", "w").write("0")
"""


def test_where_the_kernel_really_refuses_namespaces_the_setting_is_named() -> None:
    """In a user namespace whose limit of further ones is zero: the kernel's own refusal."""
    child = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_NAMESPACES + PROBE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    uid = os.geteuid()
    for name in ("setgroups", "gid_map", "uid_map"):
        if uid == 0:
            content = "allow" if name == "setgroups" else "0 0 100000"
        else:
            own = os.getegid() if name == "gid_map" else uid
            content = "deny" if name == "setgroups" else f"{own} {own} 1"
        Path(f"/proc/{child.pid}/{name}").write_text(content)
    output, _ = child.communicate("go\n", timeout=60)
    assert output.startswith("9 bubblewrap cannot start")
    assert "user.max_user_namespaces is 0" in output


def test_root_without_another_user_to_become_gets_no_sandbox() -> None:
    result = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", "import asyncio\n" + PROBE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout.startswith("9 this root user has no user id"), result.stderr


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("user/max_user_namespaces", "0", "user.max_user_namespaces"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
    ],
)
def test_each_setting_that_forbids_namespaces_is_recognised(
    tmp_path: Path, setting: str, value: str, named: str
) -> None:
    path = tmp_path / "sys" / setting
    path.parent.mkdir(parents=True)
    path.write_text(value + "\n")
    assert named in namespace_obstacle(tmp_path)


def test_a_container_filter_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "user").touch()
    (tmp_path / "self" / "status").write_text("Name:\tx\nSeccomp:\t2\n")
    assert "system-call filter of a surrounding container" in namespace_obstacle(tmp_path)

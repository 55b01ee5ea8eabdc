"""Resource limits: enforced, reported when hit, and admitted when they cannot be enforced."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from whimbrel.sandbox.bwrap import runner
from whimbrel.sandbox.bwrap.cgroups import RunGroups
from whimbrel.sandbox.protocol import SandboxLimits

from .conftest import MakeBox

pytestmark = pytest.mark.bwrap

MIB = 1 << 20
FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1; ls /proc | grep -c '^[0-9]'"


async def test_a_fork_bomb_stays_within_the_process_limit(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(pids=48))
    result = await box.sh(FORK_BOMB)
    counted = [line for line in result.text().split() if line.isdigit()]
    assert counted == [] or int(counted[-1]) <= 48
    assert "fork" in result.text()
    assert (await box.sh("echo still here")).text() == "still here\n"


async def test_the_process_limit_holds_without_control_groups_or_is_admitted(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "create_groups", lambda *_: RunGroups({}, frozenset()))
    box = await make_box(limits=SandboxLimits(pids=48))
    warnings = " ".join(box.sandbox.describe().warnings)
    assert "memory is not limited" in warnings
    assert "CPU time is not limited" in warnings
    if "the process count is not limited" in warnings:
        return
    assert "the process count is limited per command" in warnings
    result = await box.sh(FORK_BOMB)
    assert "fork" in result.text()
    assert (await box.sh("echo still here")).text() == "still here\n"


async def test_memory_beyond_the_limit_is_refused_and_said_so(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(memory_bytes=200 * MIB))
    if any("memory is not limited" in line for line in box.sandbox.describe().warnings):
        pytest.skip("this machine offers no writable memory control group")
    result = await box.py("x = bytearray(600 << 20); print('GOT IT')")
    assert "GOT IT" not in result.text()
    assert "memory limit of 200 MiB" in result.note


async def test_filling_the_workspace_ends_the_command_with_a_note(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(disk_bytes=64 * MIB))
    result = await box.sh(
        "n=0; while :; do n=$((n+1)); head -c 16777216 /dev/zero > f$n || exit; sleep 0.05; done"
    )
    assert result.killed
    assert "workspace grew beyond its limit of 64 MiB" in result.note
    cleaned = await box.sh("rm -f f*; echo cleaned")
    assert cleaned.text() == "cleaned\n"
    assert not cleaned.killed


async def test_filling_the_private_tmp_ends_the_command_with_a_note(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(tmp_bytes=64 * MIB))
    result = await box.sh(
        "n=0; while :; do n=$((n+1)); head -c 16777216 /dev/zero > /tmp/f$n; sleep 0.05; done"
    )
    assert "/tmp grew beyond its limit of 64 MiB" in result.note


async def test_deleted_files_that_are_held_open_count_as_disk_use(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(disk_bytes=64 * MIB))
    result = await box.py(
        "import os, time\nheld = []\nwhile True:\n"
        "    f = open('x', 'wb'); os.unlink('x'); f.write(bytes(16 << 20)); f.flush()\n"
        "    held.append(f); time.sleep(0.05)"
    )
    assert "grew beyond its limit" in result.note


async def test_one_huge_file_is_stopped_by_the_file_size_limit(make_box: MakeBox) -> None:
    box = await make_box(limits=SandboxLimits(file_bytes=MIB))
    result = await box.py("open('huge', 'wb').write(bytes(3 << 20))")
    assert result.exit_code != 0
    assert (box.workspace / "huge").stat().st_size == MIB


async def test_control_groups_disappear_with_the_sandbox(make_box: MakeBox) -> None:
    box = await make_box()
    run_id = box.sandbox.spec.run_id
    groups = [path for path in Path("/sys/fs/cgroup").glob("**/whimbrel-*") if run_id in path.name]
    warned = any("control group" in line for line in box.sandbox.describe().warnings)
    assert groups or warned
    await box.sandbox.stop()
    assert not any(path.exists() for path in groups)


async def test_a_limit_reached_by_one_run_does_not_touch_another(make_box: MakeBox) -> None:
    small = await make_box(limits=SandboxLimits(pids=32))
    other = await make_box()
    bombed, counted = await asyncio.gather(
        small.sh(FORK_BOMB),
        other.sh("for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.05; echo child) & done; wait"),
    )
    assert "fork" in bombed.text()
    assert counted.text().count("child") == 10

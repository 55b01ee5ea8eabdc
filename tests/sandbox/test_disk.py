"""Ways to fill a disk that a plain look at the workspace does not see, in every isolating sandbox."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from whimbrel.sandbox.protocol import Mount, Sandbox, SandboxLimits, SandboxSpec, run_to_end
from whimbrel.sandbox.select import Choice, make_sandbox, workspace_owner
from whimbrel.sandbox.workspace.descriptors import remove_tree

from .bwrap.conftest import NoSnapshots

KINDS = (pytest.param("bwrap", marks=pytest.mark.bwrap), pytest.param("docker", marks=pytest.mark.docker))
PREFIX = Path(sys.base_prefix)
LIMIT = SandboxLimits(disk_bytes=64 << 20)

DELETED = """
import os, time
held = []
while True:
    f = open('x', 'wb'); os.unlink('x'); f.write(bytes(16 << 20)); f.flush()
    held.append(f); time.sleep(0.05)
"""
MAPPED = """
import mmap, os, time
held = []
while True:
    f = open('x', 'w+b'); os.unlink('x'); f.write(bytes(16 << 20)); f.flush()
    held.append(mmap.mmap(f.fileno(), 4096)); f.close(); time.sleep(0.05)
"""
DEEP = """
import os, time
for _ in range(60):
    os.mkdir('d' * 100); os.chdir('d' * 100)
for number in range(1000):
    open(f'f{number}', 'wb').write(bytes(16 << 20)); time.sleep(0.05)
"""
MANY = """
import os
for number in range(2000000):
    if number % 1000 == 0:
        os.mkdir(f'd{number}')
    os.close(os.open(f'd{number // 1000 * 1000}/{number}', os.O_CREAT | os.O_WRONLY))
"""


async def start(kind: str, place: Path, state: Path, limits: SandboxLimits) -> Sandbox:
    workspace = place / "copy"
    workspace.mkdir()
    owner = workspace_owner(kind)
    if owner is not None:
        os.chown(workspace, *owner)
    spec = SandboxSpec(
        workspace=workspace,
        workdir="/home/someone/demo",
        state_dir=state,
        run_id=f"test-{secrets.token_hex(4)}",
        limits=limits,
        mounts=(Mount(PREFIX, str(PREFIX)),) if kind == "bwrap" else (),
    )
    sandbox = make_sandbox(Choice(kind), spec, NoSnapshots())
    await sandbox.start()
    return sandbox


def python(sandbox: Sandbox) -> str:
    return str(PREFIX / "bin/python3") if sandbox.describe().kind == "bwrap" else "python3"


@pytest.fixture
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    made = await start(request.param, tmp_path, tmp_path / "state", LIMIT)
    yield made
    await made.stop()
    remove_tree(tmp_path / "copy")


@pytest.mark.parametrize("script", [DELETED, MAPPED, DEEP, MANY], ids=["deleted", "mapped", "deep", "many"])
@pytest.mark.parametrize("sandbox", KINDS, indirect=True)
async def test_no_way_of_filling_the_workspace_goes_unseen(sandbox: Sandbox, script: str) -> None:
    if script is MAPPED and os.geteuid() != 0:
        pytest.skip("only root may look at other processes' mapped files; the floor protects the disk")
    result = await run_to_end(sandbox, [python(sandbox), "-c", script], timeout_s=60)
    assert result.killed
    assert "the workspace grew beyond its limit of 64 MiB" in result.note
    again = await run_to_end(sandbox, ["/bin/sh", "-c", "rm -rf ./*; echo usable"], timeout_s=60)
    assert again.text() == "usable\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m,mode=755", "none", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("kind", KINDS)
async def test_commands_end_before_the_disk_itself_is_full(
    kind: str, small_disk: Path, tmp_path: Path
) -> None:
    sandbox = await start(kind, small_disk, tmp_path / "state", SandboxLimits())
    try:
        filling = "n=0; while :; do n=$((n+1)); head -c 4194304 /dev/zero > f$n || exit; sleep 0.1; done"
        result = await run_to_end(sandbox, ["/bin/sh", "-c", filling], timeout_s=60)
        assert result.killed
        assert "MiB left: command ended" in result.note
        # With what is left, cleaning up and small things go on.
        tidy = await run_to_end(sandbox, ["/bin/sh", "-c", "rm f*; echo tidy > new; cat new"], timeout_s=60)
        assert tidy.text() == "tidy\n"
    finally:
        await sandbox.stop()

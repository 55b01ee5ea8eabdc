"""Real containers on small workspaces; everything a test makes is removed after it."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from whimbrel.sandbox.docker import DockerSandbox
from whimbrel.sandbox.images import usable_image
from whimbrel.sandbox.protocol import (
    ExecResult,
    Mount,
    NetworkPolicy,
    SandboxLimits,
    SandboxSpec,
    run_to_end,
)
from whimbrel.sandbox.select import workspace_owner

WORKDIR = "/home/someone/projects/demo"


class NoSnapshots:
    """These tests never take snapshots; one that did would fail here."""

    async def snapshot(self) -> str:
        raise AssertionError("no snapshot was expected")

    async def restore(self, snapshot: str) -> None:
        raise AssertionError("no restore was expected")


class Box:
    """A sandbox with short ways to run things in it."""

    def __init__(self, sandbox: DockerSandbox) -> None:
        self.sandbox = sandbox
        self.workspace = sandbox.spec.workspace

    async def sh(self, script: str, *, timeout_s: float = 60, **options: object) -> ExecResult:
        return await run_to_end(self.sandbox, ["/bin/sh", "-c", script], timeout_s=timeout_s, **options)  # type: ignore[arg-type]

    async def processes(self) -> str:
        """Command lines of what runs inside, the container's keeper and this question left out."""
        listing = await self.sh(
            'for entry in /proc/[0-9]*; do pid=${entry#/proc/}; [ "$pid" = $$ ] && continue; '
            'line=$(tr "\\0" " " < "$entry/cmdline" 2>/dev/null); '
            'case $line in *init*|*trap*|"sleep 3600 "|*/.whimbrel/*|"") ;; *) echo "$line" ;; esac; done'
        )
        return "\n".join(line for line in listing.text().splitlines() if "entry" not in line)

    async def stop(self) -> None:
        await self.sandbox.stop()


MakeBox = Callable[..., Awaitable[Box]]
MakeImage = Callable[[dict[str, bytes | str]], str]


def docker(*arguments: str, check: bool = True) -> str:
    """The docker command line, as a person would use it next to a run."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


@pytest.fixture
async def base_image() -> str:
    return (await usable_image(None, allow_build=True)).reference


def new_spec(folder: Path, **options: object) -> SandboxSpec:
    """A spec on a fresh workspace below ``folder``."""
    number = len(list(folder.glob("copy*")))
    workspace = folder / f"copy{number}"
    workspace.mkdir()
    owner = workspace_owner("docker")
    if owner is not None:
        os.chown(workspace, *owner)
    values: dict[str, object] = {
        "workspace": workspace,
        "workdir": WORKDIR,
        "state_dir": folder / f"state{number}",
        "run_id": f"test-{secrets.token_hex(4)}",
        **options,
    }
    return SandboxSpec(**values)  # type: ignore[arg-type]


@pytest.fixture
async def make_box(tmp_path: Path, base_image: str, make_image: MakeImage) -> AsyncIterator[MakeBox]:
    # make_image is asked for so that its images go after the containers that use them.
    boxes: list[Box] = []

    async def make(
        *,
        limits: SandboxLimits | None = None,
        network: NetworkPolicy = NetworkPolicy.NONE,
        mounts: tuple[Mount, ...] = (),
        env: dict[str, str] | None = None,
        workdir: str = WORKDIR,
        image: str | None = None,
        run_id: str | None = None,
    ) -> Box:
        spec = new_spec(
            tmp_path,
            workdir=workdir,
            mounts=mounts,
            env=env or {},
            network=network,
            limits=limits or SandboxLimits(),
            image=image or base_image,
            run_id=run_id or f"test-{secrets.token_hex(4)}",
        )
        box = Box(DockerSandbox(spec, NoSnapshots()))
        boxes.append(box)
        await box.sandbox.start()
        return box

    yield make
    for box in boxes:
        await box.stop()


@pytest.fixture
async def box(make_box: MakeBox) -> Box:
    return await make_box()


@pytest.fixture
def make_image() -> Iterator[MakeImage]:
    """Imports an image from files: bytes are programs, strings are symbolic links."""
    made: list[str] = []

    def make(content: dict[str, bytes | str]) -> str:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, what in content.items():
                entry = tarfile.TarInfo(name)
                if isinstance(what, str):
                    entry.type, entry.linkname = tarfile.SYMTYPE, what
                    tar.addfile(entry)
                else:
                    entry.mode, entry.size = 0o755, len(what)
                    tar.addfile(entry, io.BytesIO(what))
        tag = f"whimbrel-test:{secrets.token_hex(4)}"
        done = subprocess.run(["docker", "import", "-", tag], input=archive.getvalue(), capture_output=True)
        assert done.returncode == 0, done.stderr
        made.append(tag)
        return tag

    yield make
    for tag in made:
        docker("rmi", "-f", tag, check=False)


@pytest.fixture(scope="session")
def busybox() -> bytes:
    """A static busybox, the smallest thing that is a shell."""
    path = shutil.which("busybox")
    assert path is not None, "these tests need a static busybox: apt-get install busybox-static"
    return Path(path).read_bytes()

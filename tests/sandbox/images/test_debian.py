"""The base image from Debian packages: where its parts come from, and what goes wrong clearly."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import SandboxUnavailable
from whimbrel.sandbox.daemon import Daemon, connect
from whimbrel.sandbox.images import build_base, usable_image
from whimbrel.sandbox.images.debian import host_mirror, host_suite
from whimbrel.sandbox.images.scratch import build_scratch


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    found = await connect()
    yield found
    found.close()


def test_the_suite_is_the_hosts_own_on_debian_only(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('ID=debian\nVERSION_CODENAME=trixie\nNAME="Debian GNU/Linux"\n')
    assert host_suite(release) == "trixie"
    release.write_text("ID=ubuntu\nVERSION_CODENAME=noble\n")
    assert host_suite(release) == "bookworm"
    assert host_suite(tmp_path / "missing") == "bookworm"


def test_the_mirror_is_read_from_both_forms_of_apts_configuration(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://comment.invalid/debian bookworm main\n"
        "deb-src http://source.invalid/debian bookworm main\n"
        "deb [signed-by=/x.gpg arch=amd64] http://lists.invalid/debian bookworm contrib main\n"
    )
    (parts / "debian.sources").write_text(
        "Types: deb\nURIs: http://off.invalid/debian\nSuites: trixie\nComponents: main\nEnabled: no\n\n"
        "# the working one\nTypes: deb deb-src\nURIs: http://parts.invalid/debian\n"
        "Suites: trixie trixie-updates\nComponents: main\n"
    )
    assert host_mirror("bookworm", tmp_path) == "http://lists.invalid/debian"
    assert host_mirror("trixie", tmp_path) == "http://parts.invalid/debian"
    assert host_mirror("sid", tmp_path) is None


@pytest.mark.docker
async def test_a_base_image_that_is_there_is_found_at_once(daemon: Daemon) -> None:
    reported: list[str] = []
    first = await build_base(daemon, report=reported.append)
    reported.clear()
    second = await build_base(daemon, report=reported.append)
    assert second.digest == first.digest
    assert reported == []
    assert second.kind == "base"
    assert (await usable_image(None)).digest == first.digest


@pytest.mark.docker
async def test_a_missing_debootstrap_is_named(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable, match="debootstrap") as caught:
        await build_base(daemon, tag="whimbrel-test:never")
    assert "apt-get install debootstrap" in caught.value.hint


@pytest.mark.docker
async def test_a_mirror_that_does_not_answer_leaves_nothing_behind(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="debootstrap could not make"):
        await build_base(daemon, mirror="http://127.0.0.1:9/debian", tag="whimbrel-test:never")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    with pytest.raises(SandboxUnavailable, match="not on this machine"):
        await usable_image("whimbrel-test:never")


@pytest.mark.docker
async def test_a_suite_must_look_like_one(daemon: Daemon) -> None:
    with pytest.raises(SandboxUnavailable, match="no Debian suite"):
        await build_base(daemon, suite="--foreign")


async def test_too_little_disk_is_said_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="not enough disk"):
        async with build_scratch(1 << 60):
            pass
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


_KILLED = """
import asyncio, os, signal
from whimbrel.sandbox.images.scratch import build_scratch
async def main():
    async with build_scratch(1) as folder:
        (folder / "half").write_text("done")
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def _run_and_be_killed() -> None:
    subprocess.run([sys.executable, "-c", _KILLED], check=False)


async def test_a_build_killed_with_sigkill_is_cleaned_up_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    _run_and_be_killed()
    left = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(left) == 1
    async with build_scratch(1) as folder:
        assert not left[0].exists()
        assert folder.exists()
    assert not folder.exists()

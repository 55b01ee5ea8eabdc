"""The same runs inside isolating sandboxes: helpers mounted or copied in, reports read back."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from whimbrel.app.evidence import EvidenceLedger
from whimbrel.app.repo.environment.model import ProjectEnvironment
from whimbrel.app.repo.testing.adapters import PytestAdapter, UnittestAdapter
from whimbrel.app.repo.testing.place import INSIDE_TARGET, inside_mount
from whimbrel.app.repo.testing.report import Outcome
from whimbrel.app.repo.testing.runner import TestRunner
from whimbrel.app.repo.testing.zygote import Zygote
from whimbrel.sandbox.bwrap import BwrapSandbox
from whimbrel.sandbox.docker import DockerSandbox
from whimbrel.sandbox.images import usable_image
from whimbrel.sandbox.protocol import Mount, SandboxSpec
from whimbrel.sandbox.select import workspace_owner
from whimbrel.sandbox.workspace import Workspace

from .conftest import make_repository

FILES = {
    "shop.py": "def net(x):\n    return 1 / x\n",
    "test_shop.py": (
        "import os, shop\n"
        "def test_good(): assert shop.net(1) == 1\n"
        "def test_bad(): shop.net(0)\n"
        "def test_crash(): os.abort()\n"
        "def test_after(): pass\n"
    ),
}
WORKDIR = "/home/someone/projects/shop"


def interpreter_mounts(python: str) -> tuple[Mount, ...]:
    """The environment and the base interpreter behind it, at their own paths."""
    script = "import sys; print(sys.prefix); print(sys.base_prefix)"
    shown = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    return tuple(Mount(Path(line), line) for line in dict.fromkeys(shown.stdout.split()))


@pytest.mark.bwrap
@pytest.mark.parametrize("mounted", [True, False], ids=["helpers mounted", "helpers copied in"])
async def test_runs_and_forks_work_inside_bubblewrap(tmp_path, interpreter, mounted):
    python = interpreter("3.11")
    repository = tmp_path / "repository"
    repository.mkdir()
    make_repository(repository, FILES)
    workspace = await Workspace.create(repository, tmp_path / "run", owner=workspace_owner("bwrap"))
    mounts = (*interpreter_mounts(python), *workspace.mounts(), *((inside_mount(),) if mounted else ()))
    spec = SandboxSpec(workspace.root, WORKDIR, tmp_path / "state", f"t{os.getpid()}", mounts=mounts)
    sandbox = BwrapSandbox(spec, workspace)
    await sandbox.start()
    try:
        environment = ProjectEnvironment(python, (3, 11, 0), "--python")
        runner = TestRunner(PytestAdapter(), sandbox, environment, EvidenceLedger(), workspace)
        run = await runner.run(purpose="baseline", coverage=True)
        assert (await runner.place()).inside.startswith(INSIDE_TARGET) is mounted
        cases = {case.id: case for case in run.report.cases}
        assert [case.outcome for case in cases.values()] == [
            Outcome.PASSED,
            Outcome.FAILED,
            Outcome.CRASHED,
            Outcome.PASSED,
        ]
        assert [frame.path for frame in cases["test_shop.py::test_bad"].frames] == ["test_shop.py", "shop.py"]
        assert run.report.coverage["test_shop.py::test_good"]["shop.py"] == {2}
        assert run.row.sandbox_kind == "bwrap"
        zygote = Zygote()
        await zygote.start(runner)
        assert zygote.forks, zygote.note
        assert (await zygote.run(["test_shop.py::test_good"], timeout_s=20)).good
        await asyncio.to_thread((workspace.root / "shop.py").write_text, "def net(x):\n    return 2\n")
        assert not (await zygote.run(["test_shop.py::test_good"], timeout_s=20)).good
        await zygote.close()
        assert await workspace.diff(run.row.tree) != b""
    finally:
        await sandbox.stop()
        await workspace.destroy()


UNITTESTS = {
    "shop.py": "def net(x):\n    return 1 / x\n",
    "tests/__init__.py": "",
    "tests/test_shop.py": (
        "import os, unittest, shop\n"
        "class TestShop(unittest.TestCase):\n"
        "    def test_good(self): self.assertEqual(shop.net(1), 1)\n"
        "    def test_bad(self): shop.net(0)\n"
        "    def test_crash(self): os.abort()\n"
        "    def test_later(self): pass\n"
    ),
}


@pytest.mark.docker
async def test_runs_and_forks_work_inside_a_container(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    make_repository(repository, UNITTESTS)
    workspace = await Workspace.create(repository, tmp_path / "run", owner=workspace_owner("docker"))
    await usable_image(None, allow_build=True)
    spec = SandboxSpec(
        workspace.root,
        WORKDIR,
        tmp_path / "state",
        f"t{os.getpid()}",
        mounts=(*workspace.mounts(), inside_mount()),
    )
    sandbox = DockerSandbox(spec, workspace)
    await sandbox.start()
    try:
        environment = ProjectEnvironment("/usr/bin/python3", (0, 0, 0), "image")
        runner = TestRunner(UnittestAdapter(), sandbox, environment, EvidenceLedger(), workspace)
        run = await runner.run(purpose="baseline")
        outcomes = {case.id.rpartition(".")[2]: case.outcome for case in run.report.cases}
        assert outcomes == {
            "test_good": Outcome.PASSED,
            "test_bad": Outcome.FAILED,
            "test_crash": Outcome.CRASHED,
            "test_later": Outcome.PASSED,
        }
        assert run.row.sandbox_kind == "docker" and run.row.image_digest
        zygote = Zygote()
        await zygote.start(runner)
        assert zygote.forks, zygote.note
        good = "tests.test_shop.TestShop.test_good"
        assert (await zygote.run([good], timeout_s=20)).good
        await zygote.close()
    finally:
        await sandbox.stop()
        await workspace.destroy()

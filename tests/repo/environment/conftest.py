"""Real repositories and real virtual environments for the environment tests."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.evidence import EvidenceLedger
from whimbrel.app.repo.environment import (
    ProjectEnvironment,
    build_outputs,
    make_mount_points,
    plan_environment,
    verify_environment,
)
from whimbrel.app.repo.testing.adapters import adapter_for_command, detect_adapter
from whimbrel.app.repo.testing.place import inside_mount
from whimbrel.app.repo.testing.runner import TestRunner
from whimbrel.app.repo.testing.testrun import TestRun
from whimbrel.sandbox.base.results import ExecResult
from whimbrel.sandbox.protocol import Sandbox, SandboxSpec, run_to_end
from whimbrel.sandbox.select import choose_kind, make_sandbox, workspace_owner
from whimbrel.sandbox.workspace import Workspace

PYTEST_AND_ITS_NEEDS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


def git(directory: Path, *args: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *args],
        cwd=directory,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def in_git():
    return git


@pytest.fixture
def make_files():
    return write


@pytest.fixture(autouse=True)
def own_directories(tmp_path_factory, monkeypatch):
    """Cache, state and temporary places of these tests only."""
    place = tmp_path_factory.mktemp("home")
    place.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    return place


@pytest.fixture
def make_repository(tmp_path):
    """A committed repository of the given files; ``.venv`` is ignored in it."""

    def make(files: dict[str, str], name: str = "project") -> Path:
        root = tmp_path / name
        root.mkdir()
        write(root, {".gitignore": ".venv/\nvenv/\n*.egg-info/\n__pycache__/\n", **files})
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "Start")
        return root

    return make


@pytest.fixture
def make_venv():
    """A real virtual environment, with pytest copied from the running one when asked."""
    return virtual_environment


@pytest.fixture(scope="session")
def shared_venv(tmp_path_factory) -> Path:
    """One environment with pytest, for tests that do not change it."""
    return virtual_environment(tmp_path_factory.mktemp("shared") / "venv")


def virtual_environment(place: Path, *, python: str | None = None, with_pytest: bool = True) -> Path:
    base = python or getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", str(place)], check=True)
    if with_pytest:
        (site,) = place.glob("lib/python3*/site-packages")
        for name in PYTEST_AND_ITS_NEEDS:
            copy_distribution(name, site)
    return place


def copy_distribution(name: str, site: Path) -> None:
    distribution = metadata.distribution(name)
    for file in distribution.files or ():
        if file.parts[0] != ".." and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(distribution.locate_file(file)), target)


@pytest.fixture
def real_python() -> Path:
    """The base interpreter of the running one, symlinks resolved."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def find_python(minor: int) -> str | None:
    """An interpreter of Python 3.``minor`` on this machine."""
    for path in sorted(Path("~/.pyenv/versions").expanduser().glob(f"3.{minor}.*/bin/python")):
        return str(path)
    for name in (f"python3.{minor}",):
        found = shutil.which(name)
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    return None


@pytest.fixture
def python_of():
    return find_python


@dataclass
class Staged:
    """A project on stage: copy, started sandbox, verified environment."""

    workspace: Workspace
    sandbox: Sandbox
    environment: ProjectEnvironment

    async def run(self, *argv: str) -> ExecResult:
        return await run_to_end(self.sandbox, argv, env=self.environment.env, timeout_s=120)

    async def python(self, code: str) -> str:
        result = await self.run(self.environment.python, "-c", code)
        assert result.exit_code == 0, result.text()
        return result.text().strip()

    async def tests(self, *options: str) -> ExecResult:
        return await self.run(
            self.environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options
        )


@pytest.fixture
def copy_python():
    return copy_small_python


def copy_small_python(real_python: Path, target: Path) -> None:
    """The running interpreter without its test suite and installed packages, at another prefix."""
    prefix = Path(sys.base_prefix)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    left_out = shutil.ignore_patterns("test", "site-packages", "__pycache__", "idlelib", "*.a", "config-*")
    shutil.copytree(prefix / "lib" / version, target / "lib" / version, symlinks=True, ignore=left_out)
    for library in (prefix / "lib").glob("libpython*"):
        shutil.copy2(library, target / "lib", follow_symlinks=False)
    (target / "lib" / version / "site-packages").mkdir()
    (target / "bin").mkdir()
    shutil.copy2(real_python, target / "bin" / real_python.name)


@pytest.fixture
def run_tests():
    """Runs a staged project's tests as a repair would: one fresh process, one report."""

    async def run(stage: Staged, command: str = "") -> TestRun:
        adapter = adapter_for_command(command) if command else detect_adapter(stage.workspace.root)[0]
        runner = TestRunner(adapter, stage.sandbox, stage.environment, EvidenceLedger(), stage.workspace)
        try:
            return await runner.run(purpose="baseline")
        finally:
            await runner.close()

    return run


@pytest.fixture
def on_stage(tmp_path, own_directories):
    """An asynchronous context: the project copied, planned, its sandbox started, verified."""

    @asynccontextmanager
    async def stage(
        repository: Path, kind: str, *, check: bool = True, **options: Any
    ) -> AsyncGenerator[Staged]:
        run = own_directories / f"run-{secrets.token_hex(4)}"
        (run / "logs").mkdir(parents=True)
        isolating = kind in ("docker", "bwrap")
        choice = await choose_kind(
            kind, image=options.get("image"), allow_build=True, report=lambda line: None
        )
        workspace = await Workspace.create(
            repository,
            run,
            owner=workspace_owner(kind),
            extra_paths=build_outputs(repository),
            objects_inside="/whimbrel-objects" if isolating else None,
        )
        try:
            settings: dict[str, Any] = {
                "python": None,
                "environ": {"PATH": "", "HOME": "/nonexistent"},
                "recipe": None,
                "allow_build": False,
                "report": lambda line: None,
            }
            environment = await plan_environment(repository, kind, **{**settings, **options})
            workdir = str(repository) if isolating else str(workspace.root)
            make_mount_points(environment, workspace.root, workdir)
            spec = SandboxSpec(
                workspace=workspace.root,
                workdir=workdir,
                state_dir=run / "logs",
                run_id=secrets.token_hex(4),
                mounts=(*workspace.mounts(), *environment.mounts, *([inside_mount()] if isolating else [])),
                image=environment.image or choice.image,
            )
            sandbox = make_sandbox(choice, spec, workspace)
            await sandbox.start()
            try:
                if check:
                    environment = await verify_environment(environment, sandbox, workspace)
                yield Staged(workspace, sandbox, environment.at(workdir))
            finally:
                await sandbox.stop()
        finally:
            await workspace.destroy()

    return stage


KINDS = [
    pytest.param("bwrap", marks=pytest.mark.bwrap),
    pytest.param("docker", marks=pytest.mark.docker),
    "host",
]
ISOLATING = KINDS[:2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS)
    if "isolating_kind" in metafunc.fixturenames:
        metafunc.parametrize("isolating_kind", ISOLATING)

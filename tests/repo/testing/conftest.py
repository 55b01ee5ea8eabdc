"""A small real project: git repository, private copy, started host sandbox, runner."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from whimbrel.app.evidence import EvidenceLedger
from whimbrel.app.repo.environment.model import ProjectEnvironment
from whimbrel.app.repo.testing.adapters import PytestAdapter, TestAdapter
from whimbrel.app.repo.testing.runner import TestRunner
from whimbrel.sandbox.host import HostSandbox
from whimbrel.sandbox.protocol import SandboxSpec
from whimbrel.sandbox.workspace import Workspace


@dataclass
class Project:
    workspace: Workspace
    sandbox: HostSandbox
    runner: TestRunner
    ledger: EvidenceLedger
    state: Path

    def write(self, path: str, text: str) -> None:
        target = self.workspace.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text))

    def leftovers(self) -> list[str]:
        """Files of ours still lying in the sandbox's temporary directory."""
        return [str(path) for path in (self.state / "tmp").rglob("whimbrel-*/*") if path.name != "inside"]


MakeProject = Callable[..., Awaitable[Project]]


def make_repository(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text))
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(
            ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *command], cwd=folder, check=True
        )


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[MakeProject]:
    made: list[Project] = []

    async def make(
        files: dict[str, str],
        *,
        python: str = sys.executable,
        adapter: TestAdapter | None = None,
        test_timeout_s: float = 30,
        run_timeout_s: float = 120,
        import_roots: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
    ) -> Project:
        number = len(made)
        repository = tmp_path / f"repository{number}"
        repository.mkdir()
        make_repository(repository, files)
        workspace = await Workspace.create(repository, tmp_path / f"run{number}")
        state = tmp_path / f"state{number}"
        spec = SandboxSpec(workspace.root, str(workspace.root), state, f"t{number}")
        sandbox = HostSandbox(spec, workspace)
        await sandbox.start()
        ledger = EvidenceLedger()
        environment = ProjectEnvironment(
            python, (0, 0, 0), "--python", env=env or {}, import_roots=import_roots
        )
        runner = TestRunner(
            adapter or PytestAdapter(),
            sandbox,
            environment,
            ledger,
            workspace,
            test_timeout_s=test_timeout_s,
            run_timeout_s=run_timeout_s,
        )
        made.append(Project(workspace, sandbox, runner, ledger, state))
        return made[-1]

    yield make
    for one in made:
        await one.runner.close()
        await one.sandbox.stop()
        await one.workspace.destroy()


@pytest.fixture
def site_packages() -> Callable[[str], Path]:
    """``site_packages(python)`` is where that interpreter's packages are installed."""

    def find(python: str) -> Path:
        script = "import sysconfig; print(sysconfig.get_path('purelib'))"
        shown = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
        return Path(shown.stdout.strip())

    return find

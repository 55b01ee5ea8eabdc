"""The sandbox around a real copy of a real repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from whimbrel.sandbox.bwrap import BwrapSandbox
from whimbrel.sandbox.protocol import SandboxSpec, run_to_end
from whimbrel.sandbox.select import workspace_owner
from whimbrel.sandbox.workspace import Workspace

pytestmark = pytest.mark.bwrap


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit and an uncommitted change, below a directory only we may enter."""
    place = tmp_path / "private" / "project"
    place.mkdir(parents=True)
    place.parent.chmod(0o700)
    (place / "code.py").write_text("answer = 41\n")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "-qm", "s"],
    ):
        subprocess.run(["git", *command], cwd=place, check=True)
    (place / "new.py").write_text("uncommitted = True\n")
    return place


async def test_git_snapshots_and_edits_work_on_the_copy_at_the_original_path(
    repository: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    workspace = await Workspace.create(
        repository, run_dir, owner=workspace_owner("bwrap"), objects_inside="/var/lib/whimbrel/objects"
    )
    spec = SandboxSpec(
        workspace.root, str(repository), tmp_path / "state", "workspace-test", workspace.mounts()
    )
    sandbox = BwrapSandbox(spec, workspace)
    await sandbox.start()
    try:
        seen = await run_to_end(
            sandbox, ["/bin/sh", "-c", "pwd; git status --short; git log --format=%s; cat new.py"]
        )
        assert seen.text().splitlines() == [str(repository), "?? new.py", "s", "uncommitted = True"]
        before = await sandbox.snapshot()
        changed = await run_to_end(
            sandbox,
            [
                "/bin/sh",
                "-c",
                "echo 'answer = 42' > code.py && git -c user.name=x -c user.email=x@e.org commit -qam inside",
            ],
        )
        assert changed.exit_code == 0, changed.text()
        assert b"+answer = 42" in await workspace.diff()
        await sandbox.restore(before)
        again = await run_to_end(
            sandbox, ["/bin/sh", "-c", "cat code.py; echo more >> code.py && echo writable"]
        )
        assert again.text() == "answer = 41\nwritable\n"
    finally:
        await sandbox.stop()
    assert (repository / "code.py").read_text() == "answer = 41\n"
    owners = {path.stat().st_uid for path in workspace.root.iterdir()}
    owner = workspace_owner("bwrap")
    assert owners == {owner[0] if owner else os.geteuid()}


async def test_a_configuration_directory_that_is_a_link_into_the_workspace_breaks_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".config").symlink_to(repository)
    (home / ".gitconfig").symlink_to(repository / "nowhere")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    workspace = await Workspace.create(repository, tmp_path / "run", owner=workspace_owner("bwrap"))
    spec = SandboxSpec(workspace.root, str(repository), tmp_path / "state", "link-test", workspace.mounts())
    sandbox = BwrapSandbox(spec, workspace)
    await sandbox.start()
    try:
        result = await run_to_end(sandbox, ["/bin/sh", "-c", "cat code.py; ls -A ~"])
        assert result.text() == "answer = 41\n"
    finally:
        await sandbox.stop()

"""The same work as an ordinary user, and from inside git's own hooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import shell, state_of

ORDINARY = """
import asyncio, os, sys
from pathlib import Path
from whimbrel.sandbox.workspace import Workspace

async def life(repository, run_dir):
    workspace = await Workspace.create(repository, run_dir)
    root = workspace.root
    (root / "src/a.py").write_text("changed\\n")
    (root / "src/a.py").chmod(0)
    (root / "locked").mkdir()
    (root / "locked/f").write_text("l\\n")
    (root / "locked").chmod(0)
    (root / "src").chmod(0o500)
    changed = sorted(file.path for file in await workspace.changed_files())
    await workspace.restore(workspace.base.tree)
    after = (root / "src/a.py").read_text(), sorted(os.listdir(root))
    (root / "ro/in").mkdir(parents=True)
    (root / "ro/in/f").write_text("x")
    (root / "ro/in").chmod(0)
    (root / "ro").chmod(0o500)
    await workspace.destroy()
    return changed, after, root.exists()

# Once as we are: everything is imported before the change of user, who may not read the interpreter.
asyncio.run(life(Path(sys.argv[1]), Path(sys.argv[2]) / "first"))
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(61832)
    os.setuid(61832)
print(asyncio.run(life(Path(sys.argv[1]), Path(sys.argv[2]) / "second")))
"""


def test_an_ordinary_user_gets_locked_files_recorded_restored_and_removed(
    repository: Path, public: Path
) -> None:
    shell(f"cp -a . {public}/project; chmod -R a+rX {public}/project", repository)
    done = subprocess.run(
        [sys.executable, "-c", ORDINARY, str(public / "project"), str(public)],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    names = [".git", ".gitignore", "link", "run.sh", "src", "tests"]
    assert done.stdout.strip() == str((["locked/f", "src/a.py"], ("x = 1\n", names), False))


@pytest.mark.parametrize(
    "commit", ["git commit -qm three", "git commit -qam three", "git commit -qm three src/a.py"]
)
def test_a_run_from_inside_a_hook_leaves_the_commit_and_the_index_whole(
    repository: Path, tmp_path: Path, commit: str
) -> None:
    program = tmp_path / "hook.py"
    program.write_text(
        "import asyncio, os\nfrom pathlib import Path\n"
        "from whimbrel.sandbox.base.process import base_environment, run_process\n"
        "from whimbrel.sandbox.workspace import Workspace\n"
        "async def main():\n"
        f"    workspace = await Workspace.create(Path.cwd(), Path({str(tmp_path / 'run')!r}))\n"
        "    (workspace.root / 'src/b.py').write_text('agent')\n"
        "    script = 'mkdir t; cd t; git init -q .; echo 1 > f; git add f; git commit -qm inner'\n"
        "    await run_process(['sh', '-c', script], cwd=workspace.root, env=base_environment(),\n"
        f"                      log_path=Path({str(tmp_path / 'log')!r}))\n"
        "    assert b'agent' in await workspace.diff()\n"
        "    await workspace.restore(workspace.base.tree)\n"
        "    await workspace.destroy()\n"
        f"    Path({str(tmp_path / 'ran')!r}).touch()\n"
        "asyncio.run(main())\n"
    )
    hook = repository / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec {sys.executable} {program}\n")
    hook.chmod(0o755)
    shell("echo staged > staged; git add staged; echo more >> src/a.py", repository)
    shell(commit, repository)
    assert (tmp_path / "ran").exists()
    shell("git fsck --strict", repository)
    expected = {
        "git commit -qm three": ["staged"],
        "git commit -qam three": ["src/a.py", "staged"],
        "git commit -qm three src/a.py": ["src/a.py"],
    }[commit]
    assert shell("git show --name-only --format= HEAD", repository).split() == expected
    assert "agent" not in {
        content.decode("utf-8", "replace") for _, content in state_of(repository / "src").values()
    }

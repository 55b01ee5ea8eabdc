"""Real repositories in many states."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from whimbrel.sandbox.workspace import Workspace

Copy = Callable[..., Awaitable[Workspace]]


def shell(command: str, cwd: Path, **variables: str) -> str:
    """Runs bash with a fixed identity and no configuration of the person running the tests."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "ann@example.org",
        **variables,
    }
    done = subprocess.run(["bash", "-ec", command], cwd=cwd, capture_output=True, env=env)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return os.fsdecode(done.stdout)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two modules, a test, a link, a script, ignore rules; two commits and a tag."""
    root = tmp_path / "project"
    root.mkdir()
    shell(
        """
        git init -q -b main .
        mkdir -p src tests
        printf 'x = 1\\n' > src/a.py
        printf 'def test():\\n    pass\\n' > tests/test_a.py
        ln -s src/a.py link
        printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh
        printf 'build/\\n*.log\\n!keep.log\\n' > .gitignore
        git add -A; git commit -qm one; git tag -a v1.0 -m v1.0
        printf 'y = 2\\n' > src/b.py
        git add -A; git commit -qm two
        """,
        root,
    )
    return root


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory every user may enter; pytest keeps its own closed to others."""
    place = Path(tempfile.mkdtemp(prefix="whimbrel-test-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
async def copy(tmp_path: Path) -> AsyncIterator[Copy]:
    """Makes workspaces and removes them afterwards."""
    made: list[Workspace] = []

    async def make(repository: Path, **options: object) -> Workspace:
        run_dir = tmp_path / f"run-{len(made)}"
        workspace = await Workspace.create(repository, run_dir, **options)  # type: ignore[arg-type]
        made.append(workspace)
        return workspace

    yield make
    for workspace in made:
        await workspace.destroy()


def state_of(root: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content (or target) of everything below ``root``, ``.git`` included."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        else:
            content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (mode, content)
    return found


def applies(patch: bytes, repository: Path, commit: str, scratch: Path) -> Path:
    """Applies ``patch`` to a clean checkout of ``commit`` and returns the directory."""
    clean = scratch / "clean"
    shell(
        f"git clone -q --no-checkout '{repository}' '{clean}' && cd '{clean}' && git checkout -q {commit}",
        scratch,
    )
    (scratch / "patch.diff").write_bytes(patch)
    shell("git apply --check ../patch.diff && git apply ../patch.diff", clean)
    return clean

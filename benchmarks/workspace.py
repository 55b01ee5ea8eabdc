"""Snapshot and restore on a repository of many files, beside what one would do by hand.

    python benchmarks/workspace.py [--files 10000] [--rounds 5]

Rivals in the same run, on the same tree: ``cp -a`` of the whole directory and putting
that copy back, and git's own ``git add -A`` + ``git stash create`` / ``git checkout``.
Prints the median of the rounds in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from whimbrel.sandbox.workspace import Workspace


def run(command: str, cwd: Path) -> None:
    """One shell command that must succeed."""
    done = subprocess.run(command, shell=True, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command!r} failed: {done.stderr.strip()[:500]}")


def make_repository(root: Path, files: int) -> None:
    """A committed repository: ``files`` modules of about 1 KiB, one hundred per package."""
    for number in range(files):
        package = root / f"package_{number // 1000}" / f"part_{number // 100 % 10}"
        package.mkdir(parents=True, exist_ok=True)
        body = "".join(f"def function_{line}(x):\n    return x + {number * line}\n" for line in range(20))
        (package / f"module_{number}.py").write_text(body)
    # Without this, git would start repacking in the background and disturb what is measured.
    run("git init -q . && git config gc.auto 0 && git add -A", root)
    run("git -c user.name=b -c user.email=b@b commit -qm start", root)


def damage(root: Path, round_number: int) -> None:
    """What an attempt leaves: edited, new and deleted files."""
    for number in range(5):
        target = root / "package_0" / "part_0" / f"module_{number}.py"
        target.write_text(f"# attempt {round_number}\n")
    (root / f"new_{round_number}.py").write_text("x = 1\n")
    (root / "package_0" / "part_1" / "module_150.py").unlink(missing_ok=True)


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds one piece of work takes."""
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        repository = scratch / "repository"
        repository.mkdir()
        make_repository(repository, options.files)
        started = time.perf_counter()
        workspace = await Workspace.create(repository, scratch / "run")
        print(f"{options.files} files; making the copy: {time.perf_counter() - started:.3f} s")
        rows: dict[str, list[float]] = {}

        async def measure(name: str, work: Callable[[], Awaitable[object]]) -> None:
            rows.setdefault(name, []).append(await timed(work))

        def shell(command: str, cwd: Path) -> Callable[[], Awaitable[object]]:
            async def work() -> None:
                await asyncio.to_thread(run, command, cwd)

            return work

        for number in range(options.rounds):
            await measure("whimbrel: snapshot, nothing changed", workspace.snapshot)
            damage(workspace.root, number)
            await measure("whimbrel: snapshot after an attempt", workspace.snapshot)
            await measure("whimbrel: restore", lambda: workspace.restore(workspace.base.tree))

            damage(repository, number)
            await measure("git: add -A, stash create", shell("git add -A; git stash create", repository))
            await measure(
                "git: reset --hard, clean", shell("git reset -q --hard; git clean -fdq", repository)
            )

            await measure("cp -a", shell("cp -a repository saved", scratch))
            await measure("cp -a back", shell("rm -rf repository && cp -a saved repository", scratch))
            shutil.rmtree(scratch / "saved")
        for name, seconds in rows.items():
            print(f"{name:40} {statistics.median(seconds):.3f} s")
        await workspace.destroy()


if __name__ == "__main__":
    asyncio.run(main())

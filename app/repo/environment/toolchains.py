"""The environment of a project that needs no Python: its language's tools, mounted where they lie.

Tools below /usr are in the bubblewrap sandbox anyway; others (version managers keep them in a
home) are mounted read-only at their own place. A container has what its image has, and is told
of the rest. Downloaded dependencies come along where the tool keeps them outside the repository.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ....sandbox.base.environment import base_environment
from ....sandbox.base.errors import EnvironmentBroken
from ....sandbox.base.git import Git
from ....sandbox.protocol import Mount, Sandbox, run_to_end
from ....sandbox.select import workspace_owner
from .model import DEFAULT_PATH, ProjectEnvironment, Recipe
from .mounts import MountPlan

_ISOLATING: Final = ("docker", "bwrap")
_MAX_COPY_FILES: Final = 100_000
_PACKAGES: Final = {
    "node": "nodejs",
    "go": "golang-go",
    "cargo": "cargo",
    "rustc": "rustc",
    "cc": "gcc",
    "ctest": "cmake",
    "cmake": "cmake",
    "mvn": "maven",
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
}
_ASK: Final[Mapping[str, tuple[str, ...]]] = {
    # Where a tool lives may differ from where it is found (rustup's and other managers' proxies).
    "cargo": ("rustc", "--print", "sysroot"),
    "go": ("go", "env", "GOROOT"),
}


async def plan_toolchain(
    repository: Path, kind: str, programs: Sequence[str], environ: Mapping[str, str], recipe: Recipe | None
) -> ProjectEnvironment:
    """The plan for tests that these programs run. Runs none of the repository's code.

    Raises:
        EnvironmentBroken: a program is not on this machine (host and bubblewrap).
    """
    path = environ.get("PATH") or DEFAULT_PATH
    isolating = kind in _ISOLATING
    plan = MountPlan(repository, kind, workspace_owner(kind) if isolating else None)
    folders: list[str] = []
    for program in programs:
        found = shutil.which(program, path=path)
        if found is None:
            if kind == "docker":
                continue  # the image may have it; the check inside tells
            raise missing_program(program, kind)
        prefix, folder = await asyncio.to_thread(_home_of, program, Path(found), environ)
        if isolating and not prefix.is_relative_to("/usr"):
            plan.add_directory(prefix)
        if not folder.is_relative_to("/usr") or not isolating:
            folders.append(str(folder))
    mounts = list(plan.mounts())
    env = {"PATH": ":".join(dict.fromkeys([*folders, DEFAULT_PATH if isolating else path]))}
    notes = list(plan.notes)
    for extra, variables in await asyncio.to_thread(_downloads, programs, environ):
        env |= variables
        if isolating and not any(mount.target == str(extra) for mount in mounts):
            mounts.append(Mount(extra, str(extra)))
    modules = repository / "node_modules"
    if "node" in programs and isolating and modules.is_dir() and not modules.is_symlink():
        mounts.append(Mount(modules, str(modules)))
    if recipe is not None:
        env |= recipe.env
    return ProjectEnvironment(
        python="",
        version=(0, 0, 0),
        origin=programs[0],
        env=env,
        mounts=tuple(mounts),
        notes=tuple(notes),
        needs_pytest=False,
        recipe=recipe,
    )


async def copy_dependencies(repository: Path, workspace: Path) -> str:
    """Puts a git-ignored node_modules into the copy of a host run; returns a note, or "".

    A link would show up in the patch where the ignore rule names a directory, and tests could write
    through it into the person's own files.
    """
    origin, target = repository / "node_modules", workspace / "node_modules"
    if not origin.is_dir() or os.path.lexists(target):
        return ""
    if (await Git(None, repository).run("check-ignore", "-q", "node_modules/", check=False)).exit_code != 0:
        return "node_modules is not ignored by git, so it is not copied"

    def copy() -> str:
        count = sum(len(files) for _, _, files in os.walk(origin))
        if count > _MAX_COPY_FILES:
            return f"node_modules has {count} files, too many to copy (use --sandbox bwrap)"
        shutil.copytree(origin, target, symlinks=True, copy_function=shutil.copy2)
        return ""

    return await asyncio.to_thread(copy)


async def verify_toolchain(
    environment: ProjectEnvironment, sandbox: Sandbox, programs: Sequence[str]
) -> ProjectEnvironment:
    """Proves inside that each program is there and starts; ``origin`` becomes what it says of itself.

    Raises:
        EnvironmentBroken: naming the program that is missing.
    """
    kind = sandbox.describe().kind
    said = ""
    for program in programs:
        words = [program, "version" if program == "go" else "--version"]
        if program in ("java", "javac", "mvn"):
            words = ["/bin/sh", "-c", f"command -v {program}"]
        result = await run_to_end(
            sandbox, ["/bin/sh", "-c", 'exec "$@"', "sh", *words],
            env=environment.env, timeout_s=60, label="check-toolchain",
        )  # fmt: skip
        lines = result.text().strip().splitlines()
        if result.exit_code != 0:
            if result.exit_code in (126, 127) or program in ("java", "javac", "mvn"):
                raise missing_program(program, kind)
            raise EnvironmentBroken(
                f"{program} does not run in the {kind} sandbox: {lines[-1][:200] if lines else 'no output'}"
            )
        said = said or (
            f"{program} {lines[0]}"
            if lines and not lines[0].startswith(program)
            else lines[0]
            if lines
            else program
        )
    return replace(environment, origin=said)


def missing_program(program: str, kind: str) -> EnvironmentBroken:
    """The error for a toolchain that is not there."""
    package = _PACKAGES.get(program, program)
    if kind == "docker":
        return EnvironmentBroken(
            f"the tests need {program}, which the docker sandbox's image does not have",
            hint=f"give --image with one that has it, or --sandbox bwrap with {package} installed here",
        )
    return EnvironmentBroken(
        f"the tests need {program}, which is not installed here",
        hint=f"install it (Debian: apt-get install {package})",
    )


def _home_of(program: str, found: Path, environ: Mapping[str, str]) -> tuple[Path, Path]:
    """(the directory that holds all of a tool, the one to put on PATH)."""
    if program in _ASK:
        told = _asked(_ASK[program], environ)
        if told is not None and (told / "bin" / program).exists():
            return told, told / "bin"
    real = found.resolve()
    if real.is_relative_to("/usr") or real.parent.name != "bin":
        # /usr/bin/X stays where it is found: what it leads to may be named differently (alternatives).
        return (Path("/usr"), found.parent) if real.is_relative_to("/usr") else (real.parent, found.parent)
    return real.parent.parent, real.parent


def _asked(argv: tuple[str, ...], environ: Mapping[str, str]) -> Path | None:
    keep = ("RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN", "GOROOT")
    program = shutil.which(argv[0], path=environ.get("PATH"))
    if program is None:
        return None
    try:
        # Away from the repository: what lies there (rust-toolchain.toml) must not make a manager download.
        done = subprocess.run(
            [program, *argv[1:]], cwd="/", env=base_environment(keep=keep), capture_output=True, timeout=20,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    text = os.fsdecode(done.stdout).strip()
    return Path(text) if done.returncode == 0 and text.startswith("/") else None


def _downloads(programs: Sequence[str], environ: Mapping[str, str]) -> list[tuple[Path, dict[str, str]]]:
    """Folders with downloaded dependencies, and the variables that lead a tool to them."""
    home = Path(environ.get("HOME") or Path.home())
    found: list[tuple[Path, dict[str, str]]] = []
    if "go" in programs:
        cache = Path(environ.get("GOMODCACHE") or Path(environ.get("GOPATH") or home / "go") / "pkg" / "mod")
        if cache.is_dir():
            found.append((cache, {"GOMODCACHE": str(cache)}))
    return found

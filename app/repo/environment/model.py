"""What the rest of the program knows about a project's environment: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from ....sandbox.protocol import Mount

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Recipe:
    """What a repository says about running its own tests; obeyed only after trust.

    Comes from ``whimbrel.toml`` or ``[tool.whimbrel]`` in ``pyproject.toml``.
    """

    source: str
    """Repository-relative file it was read from."""
    setup: tuple[str, ...] = ()
    """Shell commands run once in the sandbox before anything else."""
    test: tuple[str, ...] = ()
    """Test command as argv, or empty; a string in the file becomes ``/bin/sh -c``."""
    services: tuple[str, ...] = ()
    """Shell commands started in the background before tests and ended after them."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    run_timeout_s: float | None = None
    test_timeout_s: float | None = None
    network: bool = False
    """The tests need the network inside the sandbox."""
    image: str | None = None
    """Container image to use as it is."""
    dockerfile: str | None = None
    """Repository-relative Dockerfile to build the image from."""
    devcontainer: str | None = None
    """Repository-relative devcontainer.json naming the image or the Dockerfile."""


@dataclass(frozen=True)
class EditableInstall:
    """A distribution installed so that it points at source files instead of holding a copy."""

    name: str
    """Distribution or file name, for messages."""
    location: str
    """Absolute directory (or file) the installation points at."""
    modules: tuple[str, ...] = ()
    """Top-level modules it maps by a finder hook; empty for path entries."""


@dataclass(frozen=True)
class ProjectEnvironment:
    """How to run the project's Python inside the sandbox."""

    python: str
    """Path of the interpreter inside the sandbox."""
    version: tuple[int, int, int]
    """(0, 0, 0) while only the sandbox can tell (an interpreter of the image)."""
    origin: str
    """``--python``, ``VIRTUAL_ENV``, ``.venv``, ``venv``, ``env``, ``PATH``, ``built`` or ``image``."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """To add to every command. Complete after ``at(workdir)``."""
    mounts: tuple[Mount, ...] = ()
    """Read-only: the environment and its base interpreter, at their own paths."""
    image: str | None = None
    """A container image made or chosen for this project, or None for the default one."""
    import_roots: tuple[str, ...] = ()
    """Repository-relative directories put first on the import path; ``.`` is the repository itself."""
    notes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """Top-level modules of the repository that must be imported from the copy."""
    editable: tuple[EditableInstall, ...] = ()
    needs_pytest: bool = True
    """False when the tests are plain unittest and pytest is not there."""
    declared: tuple[str, ...] = ()
    """Normalised names of the distributions the project declares."""
    missing: tuple[str, ...] = ()
    """Declared distributions that are not installed in this environment."""
    recipe: Recipe | None = None
    """The trusted recipe this plan obeys."""

    def at(self, workdir: str) -> ProjectEnvironment:
        """The same environment with the import path of a copy that appears at ``workdir``.

        Idempotent; entries of an earlier location are replaced, others (of the recipe) stay behind.
        """
        roots = [str(PurePosixPath(workdir) / root) for root in self.import_roots]
        given = (self.recipe.env.get("PYTHONPATH", "") if self.recipe else "").split(":")
        path = ":".join(dict.fromkeys([*roots, *(entry for entry in given if entry)]))
        env = dict(self.env)
        env.pop("PYTHONPATH", None)
        if path:
            env["PYTHONPATH"] = path
        return replace(self, env=env)

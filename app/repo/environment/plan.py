"""Planning: which interpreter, what must be mounted, what is put on the import path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ....sandbox.base.errors import EnvironmentBroken, SandboxUnavailable, UsageError
from ....sandbox.protocol import Mount
from ....sandbox.select import workspace_owner
from . import build
from .dependencies import Dependencies, python_allowed, read_dependencies
from .editable import editable_installs, inside
from .image_probe import why_not_in_image
from .installed import has_module, installed_names, wants_pytest
from .interpreter import (
    Candidate,
    Interpreter,
    Unusable,
    candidates,
    inspect,
    no_interpreter,
    own_environment,
)
from .model import DEFAULT_PATH, ProjectEnvironment, Recipe
from .mounts import MountPlan
from .project import ProjectFiles, read_project
from .recipe import load_configuration, read_devcontainer
from .roots import import_roots, top_level_modules

_ISOLATING = ("docker", "bwrap")


@dataclass(frozen=True)
class _Request:
    """The arguments of ``plan_environment``."""

    repository: Path
    kind: str
    python: str | None
    environ: Mapping[str, str]
    recipe: Recipe | None
    allow_build: bool
    report: Callable[[str], None]
    trusted: bool
    image: str | None


@dataclass(frozen=True)
class _Surveyed:
    """An interpreter and what it lacks to run the tests."""

    interpreter: Interpreter
    missing: tuple[str, ...]

    @property
    def usable(self) -> bool:
        return not self.missing


async def plan_environment(
    repository: Path,
    kind: str,
    *,
    python: str | None,
    environ: Mapping[str, str],
    recipe: Recipe | None,
    allow_build: bool,
    report: Callable[[str], None],
    trusted: bool = False,
    image: str | None = None,
) -> ProjectEnvironment:
    """Decides how the project's tests run in a sandbox of the given kind. Runs none of the repository's code.

    Args:
        kind: docker, bwrap, host or outer.
        python: the person's ``--python``, or None.
        environ: the caller's environment (VIRTUAL_ENV, PATH, ...).
        recipe: the repository's recipe, only if it is trusted.
        allow_build: whether dependencies may be installed now when no environment has them
            (network; into the cache or an image layer, never into the repository).
        report: receives progress lines.
        trusted: the person trusts the repository: dependencies may be built from source on the host.
        image: the container image the person chose, the base of a layer.

    Returns:
        The plan; its ``env`` holds the import path for a copy shown at the repository's own path,
        which ``at(workdir)`` replaces for other places.

    Raises:
        UsageError: ``python`` names nothing, or nothing that can run the tests.
        EnvironmentBroken: there is nothing to run the tests with; what is missing is named.
        SandboxUnavailable: a trusted recipe's image cannot be built.
    """
    asked = _Request(repository.resolve(), kind, python, environ, recipe, allow_build, report, trusted, image)
    project = read_project(asked.repository)
    notes = list(project.notes)
    if recipe is not None and kind == "docker":
        chosen = await _recipe_image(asked.repository, recipe, report)
        if chosen is not None:
            notes.append(f"image {chosen} of {recipe.source}")
            return _in_image(project, chosen, "python3", recipe, notes)
    elif recipe is not None and (recipe.image or recipe.dockerfile or recipe.devcontainer):
        notes.append(f"the image named by {recipe.source} is not used: the sandbox is {kind}")
    dependencies = read_dependencies(project)
    planned = await _from_this_machine(asked, project, dependencies, notes)
    if kind == "docker" and planned.image is None:
        return await _checked_in_image(asked, project, dependencies, planned)
    return planned


async def _from_this_machine(
    asked: _Request, project: ProjectFiles, dependencies: Dependencies, notes: list[str]
) -> ProjectEnvironment:
    """A usable environment, else one built now, else the best there is."""
    found = await _survey(project, dependencies, asked, notes)
    best = next((item for item in found if item.usable), None)
    if best is not None:
        return _on_host(project, asked, best, dependencies, notes)
    lacking = [f"{item.interpreter.path} lacks {', '.join(item.missing)}" for item in found]
    if asked.allow_build and asked.kind == "docker" and asked.python is None:
        try:
            return await _layer(asked, project, dependencies, [*notes, *lacking])
        except SandboxUnavailable as error:
            if not found:
                raise EnvironmentBroken(
                    f"the project's test dependencies cannot be installed: {error.message}", hint=error.hint
                ) from error
            notes.append(f"no image layer could be built ({error.message}); using this machine's Python")
    with_runner = [item for item in found if "pytest" not in item.missing]
    if asked.allow_build and found:
        want = build.wanted(dependencies, pytest=wants_pytest(project))
        try:
            built = await _built(found[0].interpreter, want, asked)
        except EnvironmentBroken as error:
            if not with_runner:
                raise
            # Declared is not the same as needed: offline, the tests may still run with what is there.
            notes.append(error.message)
        else:
            notes += [*_left_out(dependencies), *lacking]
            notes.append(f"dependencies of {want.shown_sources()} installed in {built.prefix}")
            missing = _missing(built, project, dependencies, runtime_only=True)
            return _on_host(project, asked, _Surveyed(built, missing), dependencies, notes)
    if with_runner:
        best = min(with_runner, key=lambda item: len(item.missing))
        notes.append(f"{best.interpreter.path} lacks {', '.join(best.missing)}, which the project declares")
        return _on_host(project, asked, best, dependencies, notes)
    if lacking:
        raise EnvironmentBroken(
            f"no Python here can run the project's tests: {'; '.join(lacking[:3])}",
            hint="install the project's test dependencies in .venv, or give --python",
        )
    if asked.python is not None:
        why = "; ".join(notes[len(project.notes) :]) or "it is no usable interpreter"
        raise UsageError(
            f"--python {asked.python} cannot run the project's tests: {why}",
            hint="give the path of Python 3.8 or later, or of a virtual environment made with it",
        )
    raise no_interpreter(notes)


async def _checked_in_image(
    asked: _Request, project: ProjectFiles, dependencies: Dependencies, planned: ProjectEnvironment
) -> ProjectEnvironment:
    """The plan, or, when this machine's interpreter does not start in the image, the image's own Python."""
    reason = await why_not_in_image(planned, asked.image)
    if not reason:
        return planned
    if asked.python is not None or not asked.allow_build:
        raise EnvironmentBroken(reason, hint="use an image that fits this machine, or another --sandbox")
    try:
        return await _layer(asked, project, dependencies, [*planned.notes, reason])
    except SandboxUnavailable as error:
        raise EnvironmentBroken(
            f"{reason}; the image's own Python cannot take its place: {error.message}", hint=error.hint
        ) from error


async def _layer(
    asked: _Request, project: ProjectFiles, dependencies: Dependencies, notes: list[str]
) -> ProjectEnvironment:
    """The plan for an image layer with the project's dependencies."""
    want = build.wanted(dependencies, pytest=wants_pytest(project))
    layer, python = await build.build_image_layer(asked.image, want, report=asked.report)
    notes = [*notes, *_left_out(dependencies), f"dependencies of {want.shown_sources()} installed in {layer}"]
    return _in_image(project, layer, python, asked.recipe, notes)


def _left_out(dependencies: Dependencies) -> list[str]:
    return [f"not installed (no plain name of an index): {line}" for line in dependencies.skipped]


def make_mount_points(environment: ProjectEnvironment, workspace: Path, workdir: str) -> ProjectEnvironment:
    """Creates, in the copy, the directories on which nested mounts land (``.venv`` for one).

    Call it before the sandbox starts: a container engine would create them as root. Empty
    directories are nothing to git, so they never show up in a patch.

    Returns:
        The environment without mounts that would land on a symbolic link of the copy: what
        the link leads to is mounted at its own place, and a mount cannot replace a link.
    """
    kept: list[Mount] = []
    for mount in environment.mounts:
        target = Path(mount.target)
        if target.is_relative_to(workdir) and target != Path(workdir):
            place = workspace / target.relative_to(workdir)
            if place.is_symlink():
                continue
            if mount.source.is_dir() and not os.path.lexists(place):
                place.mkdir(parents=True)
                status = workspace.stat()
                if os.geteuid() == 0:
                    os.chown(place, status.st_uid, status.st_gid)
        kept.append(mount)
    return replace(environment, mounts=tuple(kept))


async def _survey(
    project: ProjectFiles, dependencies: Dependencies, asked: _Request, notes: list[str]
) -> list[_Surveyed]:
    """Inspected candidates in order, up to the first usable one. Unusable ones leave a note."""
    found: list[_Surveyed] = []
    own = own_environment()
    named = asked.python
    for candidate in candidates(asked.repository, python=named, environ=asked.environ, own_prefix=own):
        try:
            interpreter = await inspect(candidate, asked.repository, asked.environ)
        except Unusable as reason:
            notes.append(str(reason))
            continue
        needs = project.requires_python()
        if named is None and needs and not python_allowed(needs, interpreter.version):
            shown = ".".join(map(str, interpreter.version))
            notes.append(f"{interpreter.path} is Python {shown}; the project needs {needs}")
            continue
        surveyed = _Surveyed(interpreter, _missing(interpreter, project, dependencies, runtime_only=True))
        found.append(surveyed)
        if surveyed.usable:
            break
    return found


def _missing(
    interpreter: Interpreter, project: ProjectFiles, dependencies: Dependencies, *, runtime_only: bool
) -> tuple[str, ...]:
    """Names of what is declared and not installed, pytest first when the tests need it."""
    there = installed_names(interpreter.site_dirs)
    missing = [
        name
        for name in dependencies.names(interpreter.version, runtime_only=runtime_only)
        if name not in there
    ]
    if wants_pytest(project) and not has_module(interpreter.site_dirs, "pytest"):
        missing.insert(0, "pytest")
    return tuple(dict.fromkeys(missing))


async def _built(base: Interpreter, want: build.Wanted, asked: _Request) -> Interpreter:
    place = await build.build_virtualenv(base, want, trusted=asked.trusted, report=asked.report)
    try:
        candidate = Candidate(place / "bin" / "python", "built")
        return await inspect(candidate, asked.repository, asked.environ)
    except Unusable as reason:
        raise EnvironmentBroken(f"the environment made for the project does not work: {reason}") from reason


def _on_host(
    project: ProjectFiles, asked: _Request, chosen: _Surveyed, dependencies: Dependencies, notes: list[str]
) -> ProjectEnvironment:
    """The plan for an interpreter of this machine."""
    repository, interpreter = project.root, chosen.interpreter
    editable = editable_installs(interpreter.site_dirs)
    mounts: tuple[Mount, ...] = ()
    if asked.kind in _ISOLATING:
        plan = MountPlan(repository, asked.kind, workspace_owner(asked.kind))
        plan.add_interpreter(interpreter)
        plan.add_editable(editable)
        mounts = plan.mounts()
        notes += plan.notes
    rest = DEFAULT_PATH if asked.kind in _ISOLATING else asked.environ.get("PATH") or DEFAULT_PATH
    env = {"PATH": f"{interpreter.path.parent}:{rest}", "PYTHONDONTWRITEBYTECODE": "1"}
    if interpreter.is_venv:
        env["VIRTUAL_ENV"] = str(interpreter.prefix)
    if interpreter.user_base is not None:
        env["PYTHONUSERBASE"] = str(interpreter.user_base)
    else:
        env["PYTHONNOUSERSITE"] = "1"
    into = inside(editable, repository)
    if into:
        notes.append(f"installed editable: {', '.join(sorted({item.name for item in into}))}")
    return _finished(
        project,
        ProjectEnvironment(
            python=str(interpreter.path),
            version=interpreter.version,
            origin=interpreter.origin,
            env=env,
            mounts=mounts,
            notes=tuple(notes),
            editable=into,
            needs_pytest=wants_pytest(project),
            declared=dependencies.names(interpreter.version),
            missing=_missing(interpreter, project, dependencies, runtime_only=False),
        ),
        asked.recipe,
    )


def _in_image(
    project: ProjectFiles, image: str, python: str, recipe: Recipe | None, notes: list[str]
) -> ProjectEnvironment:
    """The plan for an interpreter inside a container image; its version is known after verification."""
    parent = os.path.dirname(python)  # noqa: PTH120 - a path inside the image, not on this machine
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    if parent:
        env |= {"PATH": f"{parent}:{DEFAULT_PATH}", "VIRTUAL_ENV": os.path.dirname(parent)}  # noqa: PTH120
    return _finished(
        project,
        ProjectEnvironment(
            python=python,
            version=(0, 0, 0),
            origin="image",
            env=env,
            image=image,
            notes=tuple(notes),
            needs_pytest=wants_pytest(project),
            declared=read_dependencies(project).names((3, 11, 0)),
        ),
        recipe,
    )


def _finished(
    project: ProjectFiles, environment: ProjectEnvironment, recipe: Recipe | None
) -> ProjectEnvironment:
    """With what all plans share: import roots, modules, the recipe's variables."""
    roots = list(import_roots(project))
    for item in environment.editable:
        location = Path(item.location).resolve()
        if not item.modules and location.is_dir():
            relative = location.relative_to(project.root.resolve()).as_posix()
            if relative not in roots:
                roots.append(relative)
    # The repository itself comes last: what lies deeper is the more deliberate root.
    roots.sort(key=lambda root: root == ".")
    env = dict(environment.env)
    if recipe is not None:
        env.update({name: value for name, value in recipe.env.items() if name != "PYTHONPATH"})
    return replace(
        environment,
        env=env,
        import_roots=tuple(roots),
        modules=top_level_modules(project.root, roots),
        recipe=recipe,
    ).at(str(project.root))


async def _recipe_image(repository: Path, recipe: Recipe, report: Callable[[str], None]) -> str | None:
    """The container image of a trusted recipe, built if it is a Dockerfile; None when it names none."""
    if recipe.image:
        return recipe.image
    dockerfile, context = recipe.dockerfile, "."
    if recipe.devcontainer:
        container = read_devcontainer(repository, recipe.devcontainer)
        if container.image:
            return container.image
        dockerfile, context = container.dockerfile, container.context
    if dockerfile is None:
        return None
    digest = load_configuration(repository).digest
    return await build.build_repository_image(repository, dockerfile, context, digest=digest, report=report)

"""Planning: which interpreter, what must be mounted, what is put on the import path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ....sandbox.base.errors import EnvironmentBroken, SandboxUnavailable
from ....sandbox.protocol import Mount
from ....sandbox.select import workspace_owner
from . import build
from .dependencies import Dependencies, python_allowed, read_dependencies
from .editable import editable_installs, inside
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
        UsageError: ``python`` names nothing.
        EnvironmentBroken: there is nothing to run the tests with; what is missing is named.
        SandboxUnavailable: a trusted recipe's image cannot be built.
    """
    repository = repository.resolve()
    project = read_project(repository)
    notes = list(project.notes)
    if recipe is not None and kind == "docker":
        chosen = await _recipe_image(repository, recipe, report)
        if chosen is not None:
            return _in_image(
                project, chosen, "python3", recipe, [*notes, f"image {chosen} of {recipe.source}"]
            )
    elif recipe is not None and (recipe.image or recipe.dockerfile or recipe.devcontainer):
        notes.append(f"the image named by {recipe.source} is not used: the sandbox is {kind}")
    dependencies = read_dependencies(project)
    found = await _survey(repository, project, dependencies, python, environ, notes)
    best = next((item for item in found if item.usable), None)
    if best is not None:
        return _on_host(project, kind, best, dependencies, recipe, notes, environ)
    lacking = [f"{item.interpreter.path} lacks {', '.join(item.missing)}" for item in found]
    if allow_build:
        want = build.wanted(dependencies, pytest=wants_pytest(project))
        notes += [
            f"not installed (needs trust or is not in an index): {line}" for line in dependencies.skipped
        ]
        if kind == "docker" and python is None:
            try:
                layer, inner = await build.build_image_layer(image, want, report=report)
            except SandboxUnavailable as error:
                if not found:
                    raise EnvironmentBroken(
                        f"the project's test dependencies cannot be installed: {error.message}",
                        hint=error.hint,
                    ) from error
                notes.append(f"no image layer could be built ({error.message}); using this machine's Python")
            else:
                notes += [*lacking, f"dependencies of {want.shown_sources()} installed in {layer}"]
                return _in_image(project, layer, inner, recipe, notes)
        if found:
            built = await _built(found[0].interpreter, want, trusted, repository, environ, report)
            notes += [*lacking, f"dependencies of {want.shown_sources()} installed in {built.prefix}"]
            missing = _missing(built, project, dependencies, runtime_only=True)
            return _on_host(project, kind, _Surveyed(built, missing), dependencies, recipe, notes, environ)
    with_runner = [item for item in found if "pytest" not in item.missing]
    if with_runner:
        best = min(with_runner, key=lambda item: len(item.missing))
        notes.append(f"{best.interpreter.path} lacks {', '.join(best.missing)}, which the project declares")
        return _on_host(project, kind, best, dependencies, recipe, notes, environ)
    if lacking:
        raise EnvironmentBroken(
            f"no Python here can run the project's tests: {'; '.join(lacking[:3])}",
            hint="install the project's test dependencies in .venv, or give --python",
        )
    raise no_interpreter(notes)


def make_mount_points(environment: ProjectEnvironment, workspace: Path, workdir: str) -> None:
    """Creates, in the copy, the directories on which nested mounts land (``.venv`` for one).

    Call it before the sandbox starts: a container engine would create them as root. Empty
    directories are nothing to git, so they never show up in a patch.
    """
    for mount in environment.mounts:
        target = Path(mount.target)
        if not target.is_relative_to(workdir) or target == Path(workdir):
            continue
        place = workspace / target.relative_to(workdir)
        if mount.source.is_dir() and not os.path.lexists(place):
            place.mkdir(parents=True)
            status = workspace.stat()
            if os.geteuid() == 0:
                os.chown(place, status.st_uid, status.st_gid)


async def _survey(
    repository: Path,
    project: ProjectFiles,
    dependencies: Dependencies,
    python: str | None,
    environ: Mapping[str, str],
    notes: list[str],
) -> list[_Surveyed]:
    """Inspected candidates in order, up to the first usable one. Unusable ones leave a note."""
    found: list[_Surveyed] = []
    own = own_environment()
    for candidate in candidates(repository, python=python, environ=environ, own_prefix=own):
        try:
            interpreter = await inspect(candidate, repository, environ)
        except Unusable as reason:
            notes.append(str(reason))
            continue
        needs = project.requires_python()
        if python is None and needs and not python_allowed(needs, interpreter.version):
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


async def _built(
    base: Interpreter,
    want: build.Wanted,
    trusted: bool,
    repository: Path,
    environ: Mapping[str, str],
    report: Callable[[str], None],
) -> Interpreter:
    place = await build.build_virtualenv(base, want, trusted=trusted, report=report)
    try:
        return await inspect(Candidate(place / "bin" / "python", "built"), repository, environ)
    except Unusable as reason:
        raise EnvironmentBroken(f"the environment made for the project does not work: {reason}") from reason


def _on_host(
    project: ProjectFiles,
    kind: str,
    chosen: _Surveyed,
    dependencies: Dependencies,
    recipe: Recipe | None,
    notes: list[str],
    environ: Mapping[str, str],
) -> ProjectEnvironment:
    """The plan for an interpreter of this machine."""
    repository, interpreter = project.root, chosen.interpreter
    editable = editable_installs(interpreter.site_dirs)
    mounts: tuple[Mount, ...] = ()
    if kind in _ISOLATING:
        plan = MountPlan(repository, kind, workspace_owner(kind))
        plan.add_interpreter(interpreter)
        plan.add_editable(editable)
        mounts = plan.mounts()
        notes += plan.notes
    rest = DEFAULT_PATH if kind in _ISOLATING else environ.get("PATH") or DEFAULT_PATH
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
        recipe,
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

"""Setting the stage: working copy, environment, sandbox and test runner of one run."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...sandbox.base.errors import WhimbrelError
from ...sandbox.protocol import NetworkPolicy, RunHandle, Sandbox, SandboxSpec
from ...sandbox.select import Choice, choose_kind, make_sandbox, workspace_owner
from ...sandbox.workspace import Workspace, find_repository
from ..evidence import EvidenceLedger
from ..permissions.masking import guard_paths
from ..permissions.paths import PathPolicy
from ..repo.environment import (
    ProjectEnvironment,
    Recipe,
    build_outputs,
    load_configuration,
    make_mount_points,
    plan_environment,
    run_setup,
    start_services,
    stop_services,
    verify_environment,
)
from ..repo.environment.toolchains import copy_dependencies, plan_toolchain, verify_toolchain
from ..repo.facts import repository_facts
from ..repo.testing.adapters import CommandAdapter, TestAdapter, adapter_in, detect_adapter
from ..repo.testing.patience import seconds_for_one_test
from ..repo.testing.place import inside_mount
from ..repo.testing.runner import TestRunner
from ..repo.testing.toolchain import Toolchain, files_of
from ..trust import is_trusted, remember_trust
from .options import FixOptions
from .rundir import RunDirectory, sweep_dead_runs

ISOLATING = ("docker", "bwrap")
OBJECTS_INSIDE = "/run/whimbrel/objects"

Tell = Callable[[str, str], None]
"""Receives (kind, text): kind is info, warning or progress."""


@dataclass
class Stage:
    """Everything the job works with; ``close`` takes all of it down."""

    repository: Path
    workspace: Workspace
    choice: Choice
    environment: ProjectEnvironment
    sandbox: Sandbox
    tests: TestRunner
    selection: tuple[str, ...] = ()
    """Tests the person asked for; empty = all."""
    services: tuple[RunHandle, ...] = ()
    paths: PathPolicy = field(default_factory=PathPolicy)
    """What may be read and written, by tools and commands alike."""

    async def renew(self) -> None:
        """Replaces the sandbox by a new one of the same kind, set up in the same way.

        Processes, temporary files and a home that earlier commands left behind are gone then.

        Raises:
            SandboxUnavailable, EnvironmentBroken: as when the stage was set.
        """
        await stop_services(self.services)
        self.services = ()
        await self.sandbox.stop()
        self.sandbox = make_sandbox(self.choice, self.sandbox.spec, self.workspace)
        await self.sandbox.start()
        self.tests.move_to(self.sandbox)
        await run_setup(self.environment, self.sandbox, self.workspace)
        recipe = self.environment.recipe
        if recipe is not None:
            self.services = await start_services(recipe, self.environment, self.sandbox)

    async def close(self) -> None:
        try:
            await stop_services(self.services)
        finally:
            try:
                await self.sandbox.stop()
            finally:
                await self.workspace.destroy()


async def set_the_stage(options: FixOptions, run: RunDirectory, ledger: EvidenceLedger, tell: Tell) -> Stage:
    """Builds the stage from the weakest dependency to the strongest.

    Raises:
        RepositoryError, SandboxUnavailable, EnvironmentBroken, ConfigError: each with its next step.
    """
    for swept in sweep_dead_runs():
        tell("info", f"removed the leftover working copy of an interrupted run ({swept})")
    start = options.start
    repository = await find_repository(options.repository, start.git_dir if start else None)
    if start is None or start.git_dir is None:
        tell("info", f"repository {repository.name}: {(await repository_facts(repository)).one_line()}")
    recipe = _trusted_recipe(repository, options.trust, tell)
    choice = await choose_kind(
        options.sandbox,
        image=options.image,
        allow_build=options.allow_build,
        report=lambda text: tell("progress", text),
    )
    for reason in choice.reasons:
        tell("info", reason)
    workspace = await Workspace.create(
        repository,
        run.root,
        revision=options.revision,
        start=start,
        owner=workspace_owner(choice.kind),
        extra_paths=build_outputs(repository),
        objects_inside=OBJECTS_INSIDE if choice.kind in ISOLATING else None,
    )
    try:
        for note in workspace.base.notes:
            tell("info", note)
        return await _with_workspace(options, run, ledger, tell, workspace, choice, recipe)
    except BaseException:
        await workspace.destroy()
        raise


async def _with_workspace(
    options: FixOptions,
    run: RunDirectory,
    ledger: EvidenceLedger,
    tell: Tell,
    workspace: Workspace,
    choice: Choice,
    recipe: Recipe | None,
) -> Stage:
    repository = workspace.base.repository
    adapter, selection = choose_adapter(workspace.root, options.tests, recipe)
    programs = programs_of(adapter, workspace.root) if options.python is None else None
    if programs is None:
        environment = await plan_environment(
            repository,
            choice.kind,
            python=options.python,
            environ=os.environ,
            recipe=recipe,
            allow_build=options.allow_build,
            report=lambda text: tell("progress", text),
            trusted=options.trust or recipe is not None,
            image=options.image,
        )
    else:
        environment = await plan_toolchain(repository, choice.kind, programs, os.environ, recipe)
        if "node" in programs and choice.kind not in ISOLATING:
            note = await copy_dependencies(repository, workspace.root)
            tell("warning", note) if note else None
    if environment.image and choice.kind == "docker":
        choice = replace(choice, image=environment.image)
    workdir = str(repository) if choice.kind in ISOLATING else str(workspace.root)
    environment = make_mount_points(environment.at(workdir), workspace.root, workdir)
    helpers = (inside_mount(),) if choice.kind in ISOLATING else ()
    guard = await guard_paths(
        workspace, options.rules, workdir=workdir, state_dir=run.logs, isolated=choice.kind in ISOLATING
    )
    for note in guard.notes:
        tell("info", note)
    spec = SandboxSpec(
        workspace=workspace.root,
        workdir=workdir,
        state_dir=run.logs,
        run_id=run.run_id,
        mounts=(*workspace.mounts(), *environment.mounts, *helpers, *guard.mounts),
        network=NetworkPolicy.ALLOW if options.network or (recipe and recipe.network) else NetworkPolicy.NONE,
        image=choice.image,
    )
    sandbox = make_sandbox(choice, spec, workspace)
    await sandbox.start()
    services: tuple[RunHandle, ...] = ()
    try:
        for warning in sandbox.describe().warnings:
            tell("warning", warning)
        for note in environment.notes:
            tell("info", note)
        if programs is None:
            environment = await verify_environment(environment, sandbox, workspace)
        else:
            await run_setup(environment, sandbox, workspace)
            environment = await verify_toolchain(environment, sandbox, programs)
        if recipe is not None:
            services = await start_services(recipe, environment, sandbox)
        run_limit, test_limit = _timeouts(recipe, options.max_time_s)
        tests = TestRunner(
            adapter,
            sandbox,
            environment,
            ledger,
            workspace,
            run_timeout_s=run_limit,
            test_timeout_s=test_limit,
            seed=max(0, options.seed),
        )
    except BaseException:
        await stop_services(services)
        await sandbox.stop()
        raise
    return Stage(
        repository, workspace, choice, environment, sandbox, tests, selection, services, guard.policy
    )


def choose_adapter(
    root: Path, tests: tuple[str, ...], recipe: Recipe | None
) -> tuple[TestAdapter, tuple[str, ...]]:
    """The adapter and the tests asked for.

    ``--tests`` holds ids, files or folders of tests, or one shell command; a recipe's test
    command comes next; otherwise the repository decides.
    """
    if len(tests) == 1 and is_command(tests[0], root):
        return adapter_in(root, tests[0]), ()
    if recipe and recipe.test:
        return adapter_in(root, shlex.join(recipe.test)), tests
    return detect_adapter(root)[0], tests


def programs_of(adapter: TestAdapter, root: Path) -> tuple[str, ...] | None:
    """The programs that the tests need instead of a Python environment; None where they need that.

    A plain command of a repository without any Python needs none either.
    """
    if isinstance(adapter, Toolchain):
        return adapter.toolchain
    if isinstance(adapter, CommandAdapter) and next(files_of(root, _is_python), None) is None:
        return ("sh",)
    return None


def _is_python(name: str) -> bool:
    return name.endswith(".py") or name in ("pyproject.toml", "setup.cfg", "tox.ini")


def is_command(text: str, root: Path) -> bool:
    """Whether a ``--tests`` value is a shell command rather than the id, file or folder of a test.

    Ids may hold spaces (``test_x.py::test_y[a b]``), so it is the first word that decides.
    """
    first = text.split()[0] if text.split() else ""
    if "::" in first or (root / first).exists():
        return first != text and "::" not in first and not (root / text).exists()
    return " " in text.strip() or shutil.which(first) is not None


def _trusted_recipe(repository: Path, trust: bool, tell: Tell) -> Recipe | None:
    configuration = load_configuration(repository)
    if not configuration.found:
        return None
    if trust:
        try:
            remember_trust(repository)
        except WhimbrelError as error:
            tell("warning", f"trust holds for this run only: {error.one_line()}")
        return configuration.recipe
    if is_trusted(repository):
        return configuration.recipe
    tell("warning", configuration.ignored_note())
    return None


def _timeouts(recipe: Recipe | None, max_time_s: float) -> tuple[float, float]:
    """Seconds for a whole run of tests, and for one test."""
    run = (recipe.run_timeout_s if recipe else None) or 900.0
    test = (recipe.test_timeout_s if recipe else None) or seconds_for_one_test(max_time_s)
    return min(run, max_time_s), test

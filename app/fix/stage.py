"""Setting the stage: working copy, environment, sandbox and test runner of one run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...sandbox.base.errors import WhimbrelError
from ...sandbox.protocol import NetworkPolicy, Sandbox, SandboxSpec
from ...sandbox.select import Choice, choose_kind, make_sandbox, workspace_owner
from ...sandbox.workspace import Workspace, find_repository
from ..evidence import EvidenceLedger
from ..repo.environment import (
    ProjectEnvironment,
    Recipe,
    build_outputs,
    find_recipe,
    plan_environment,
    start_services,
    verify_environment,
)
from ..repo.testing import TestRunner, choose_adapter
from ..trust import is_trusted, remember_trust
from .options import FixOptions
from .rundir import RunDirectory, sweep_dead_runs

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

    async def close(self) -> None:
        try:
            await self.sandbox.stop()
        finally:
            await self.workspace.destroy()


async def set_the_stage(
    options: FixOptions, run: RunDirectory, ledger: EvidenceLedger, tell: Tell
) -> Stage:
    """Builds the stage from the weakest dependency to the strongest.

    Raises:
        RepositoryError, SandboxUnavailable, EnvironmentBroken, ConfigError: each with its next step.
    """
    for swept in sweep_dead_runs():
        tell("info", f"removed the leftover working copy of an interrupted run ({swept})")
    repository = await find_repository(options.repository)
    recipe = await _trusted_recipe(repository, options.trust, tell)
    choice = await choose_kind(
        options.sandbox,
        image=options.image or (recipe.image if recipe else None),
        allow_build=options.allow_build,
        report=lambda text: tell("progress", text),
    )
    for reason in choice.reasons:
        tell("info", reason)
    workspace = await Workspace.create(
        repository,
        run.root,
        revision=options.revision,
        owner=workspace_owner(choice.kind),
        extra_paths=build_outputs(repository),
        objects_inside=None if choice.kind in ("host", "outer") else "/opt/whimbrel/objects",
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
    environment = await plan_environment(
        repository,
        choice.kind,
        python=options.python,
        environ=os.environ,
        recipe=recipe,
        allow_build=options.allow_build,
        report=lambda text: tell("progress", text),
    )
    if environment.image and choice.kind == "docker":
        choice = replace(choice, image=environment.image)
    isolating = choice.kind in ("docker", "bwrap")
    workdir = str(repository) if isolating else str(workspace.root)
    environment = environment.at(workdir)
    spec = SandboxSpec(
        workspace=workspace.root,
        workdir=workdir,
        state_dir=run.logs,
        run_id=run.run_id,
        mounts=(*workspace.mounts(), *environment.mounts, *TestRunner.mounts()),
        env=_project_env(recipe),
        network=NetworkPolicy.ALLOW if options.network or (recipe and recipe.network) else NetworkPolicy.NONE,
        image=choice.image,
    )
    sandbox = make_sandbox(choice, spec, workspace)
    await sandbox.start()
    try:
        for warning in sandbox.describe().warnings:
            tell("warning", warning)
        for note in environment.notes:
            tell("info", note)
        environment = await verify_environment(environment, sandbox, workspace)
        if recipe is not None:
            await start_services(recipe, environment, sandbox)
        adapter = choose_adapter(workspace.root, options.tests, recipe.test if recipe else (), environment)
        timeouts = _timeouts(recipe, options.max_time_s)
        tests = TestRunner(adapter, sandbox, environment, ledger, workspace, **timeouts)
    except BaseException:
        await sandbox.stop()
        raise
    return Stage(repository, workspace, choice, environment, sandbox, tests)


async def _trusted_recipe(repository: Path, trust: bool, tell: Tell) -> Recipe | None:
    recipe = find_recipe(repository)
    if recipe is None:
        return None
    if trust:
        try:
            remember_trust(repository)
        except WhimbrelError as error:
            tell("warning", f"trust holds for this run only: {error.one_line()}")
        return recipe
    if is_trusted(repository):
        return recipe
    tell("warning", f"{recipe.source} configures how tests run here; it is ignored without --trust")
    return None


def _project_env(recipe: Recipe | None) -> Mapping[str, str]:
    return dict(recipe.env) if recipe else {}


def _timeouts(recipe: Recipe | None, max_time_s: float) -> dict[str, float]:
    run = (recipe.run_timeout_s if recipe else None) or 900.0
    test = (recipe.test_timeout_s if recipe else None) or 60.0
    return {"run_timeout_s": min(run, max_time_s), "test_timeout_s": test}

"""What a trusted recipe starts beside the tests: set-up commands and background services."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ....sandbox.base.errors import EnvironmentBroken
from ....sandbox.base.results import ExecResult, RunHandle
from ....sandbox.protocol import Sandbox, run_to_end
from .model import ProjectEnvironment, Recipe

if TYPE_CHECKING:
    from ....sandbox.workspace import Workspace

SETUP_TIMEOUT_S: Final = 900
_SETTLE_S: Final = 1.0
"""A service that ends with an error this soon never started."""


async def run_setup(environment: ProjectEnvironment, sandbox: Sandbox, workspace: Workspace) -> None:
    """Runs the recipe's set-up commands inside the sandbox, in order.

    Raises:
        EnvironmentBroken: the first command that fails, or files it left that a patch would contain.
    """
    recipe = environment.recipe
    if recipe is None or not recipe.setup:
        return
    before = await workspace.snapshot()
    for number, command in enumerate(recipe.setup, start=1):
        result = await run_to_end(
            sandbox,
            ["/bin/sh", "-c", command],
            env=environment.env,
            timeout_s=SETUP_TIMEOUT_S,
            label=f"setup-{number}",
        )
        if result.exit_code != 0 or result.timed_out:
            ended = "timed out" if result.timed_out else f"failed with exit code {result.exit_code}"
            raise EnvironmentBroken(
                f"set-up command {command!r} of {recipe.source} {ended}: {last_line(result)}"
            )
    changed = await workspace.changed_files(start=before)
    if changed:
        raise EnvironmentBroken(
            f"the set-up of {recipe.source} changed {changed[0].path}, which would be part of every patch",
            hint="list what set-up makes in .gitignore",
        )


async def start_services(
    recipe: Recipe, environment: ProjectEnvironment, sandbox: Sandbox
) -> tuple[RunHandle, ...]:
    """Starts the recipe's services in the background; they end with the sandbox, or by ``stop_services``.

    Raises:
        EnvironmentBroken: a service ended with an error at once; the others are ended too.
    """
    handles: list[RunHandle] = []
    try:
        for number, command in enumerate(recipe.services, start=1):
            handle = await sandbox.run(
                ["/bin/sh", "-c", command], env=environment.env, label=f"service-{number}"
            )
            handles.append(handle)
        ended = await _ended_early(handles)
        for handle, result in ended:
            if result.exit_code != 0:
                raise EnvironmentBroken(
                    f"service {handle.argv[-1]!r} of {recipe.source} ended at once "
                    f"with exit code {result.exit_code}: {last_line(result)}"
                )
    except BaseException:
        await stop_services(handles)
        raise
    return tuple(handles)


async def stop_services(handles: list[RunHandle] | tuple[RunHandle, ...]) -> None:
    """Ends services and everything they started."""
    for handle in handles:
        await handle.kill()


async def _ended_early(handles: list[RunHandle]) -> list[tuple[RunHandle, ExecResult]]:
    if not handles:
        return []
    # The waiters stay pending while their services run; the kill at the end completes them.
    waiters = {asyncio.ensure_future(handle.wait()): handle for handle in handles}
    done, _ = await asyncio.wait(waiters, timeout=_SETTLE_S)
    return [(handle, task.result()) for task, handle in waiters.items() if task in done]


def last_line(result: ExecResult) -> str:
    """The last line a command said, bounded."""
    lines = [line.strip() for line in result.text().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"

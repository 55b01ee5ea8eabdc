"""Running the job to its exit code: signals, the result file, applying."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path

from ...sandbox.base.errors import ConfigError, WhimbrelError
from ..agent.signals import interruptible
from ..paths import state_dir
from .apply import apply_result, remember_result
from .doors import JobDoor
from .events import JobEvent
from .job import FixJob
from .options import FixOptions
from .result import write_result
from .rundir import RunDirectory


def run_fix_issue(options: FixOptions, door: JobDoor, *, debug: bool = False) -> int:
    """Runs the job and returns the process's exit code. A result file is written in every case."""
    try:
        return asyncio.run(_run(options, door, debug))
    finally:
        door.close()


async def _run(options: FixOptions, door: JobDoor, debug: bool) -> int:
    run = RunDirectory.create()
    output = (options.output or state_dir() / "output" / run.run_id).expanduser().absolute()
    job = FixJob(options, run, door.show)
    result = job.result
    try:
        async with interruptible():
            await job.run()
    except WhimbrelError as error:
        result.end_with(error)
    except Exception as error:  # noqa: BLE001
        # Broad on purpose, a fault of our own: the person still gets a result file and one line.
        result.end_with(
            WhimbrelError(f"{type(error).__name__}: {error}", hint="report it with --debug's traceback")
        )
        if debug:
            traceback.print_exc()
    finally:
        if job.recording is not None:
            job.recording.end(result.status, result.message)
        run.remove()
    code = _finish(job, output)
    if options.apply and result.status == "fixed":
        try:
            await apply_result(Path(result.repository), output)
            result.applied = True
            write_result(result, output, job.attempts.diffs)
        except WhimbrelError as error:
            result.note(f"the patch was not applied: {error.one_line()}")
            write_result(result, output, job.attempts.diffs)
            code = error.exit_code
    door.show(JobEvent("result", data=result.to_json()))
    return code


def _finish(job: FixJob, output: Path) -> int:
    result = job.result
    result.output = str(output)
    try:
        write_result(result, output, job.attempts.diffs)
        if result.repository:
            remember_result(Path(result.repository), output)
    except ConfigError as error:
        # The run's own outcome matters more than where it could be written; both are told.
        result.note(error.one_line())
        return result.exit_code or error.exit_code
    return result.exit_code

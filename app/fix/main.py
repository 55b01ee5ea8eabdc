"""Running the job to its exit code: signals, the result file, applying."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ...sandbox.base.errors import ConfigError, NothingToFix, WhimbrelError
from ..agent.signals import cancellation, interruptible
from ..paths import state_dir
from .apply import apply_result, remember_result
from .attempts import AttemptLog
from .doors import JobDoor
from .events import JobEvent
from .job import FixJob
from .logs import keep_logs
from .options import FixOptions
from .output import discard_output, prepare_output, write_result
from .result import FixResult
from .rundir import RunDirectory, new_run_id, remove_tree


def run_fix_issue(
    options: FixOptions, door: JobDoor, *, debug: bool = False, refused: WhimbrelError | None = None
) -> int:
    """Runs the job and returns the process's exit code. A result file is written in every case.

    ``refused``: why the options cannot be used (wrong settings); the result says that then.
    """
    try:
        return asyncio.run(run_job(FixJob(options, new_run_id(), door.show), door, debug, refused))
    finally:
        door.close()


class Job(Protocol):
    """A piece of work that ends in a result file."""

    @property
    def options(self) -> FixOptions: ...
    @property
    def result(self) -> FixResult: ...
    @property
    def attempts(self) -> AttemptLog: ...
    @property
    def recording(self) -> Ending | None: ...

    async def run(self, run: RunDirectory) -> None: ...

    def measured(self) -> None: ...


class Ending(Protocol):
    """What is closed when the work is over."""

    def end(self, status: str, message: str) -> None: ...


async def run_job(
    job: Job,
    door: JobDoor,
    debug: bool,
    refused: WhimbrelError | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Runs a job to its exit code, whatever ends it; its result file is written in every case.

    ``stopped``: whether a door cancelled this task because the person wanted the run to end.
    """
    result = job.result
    async with interruptible() as interrupts:
        run: RunDirectory | None = None
        prepared = False
        try:
            prepare_output(_wanted_output(job), result)
            prepared = True
            if refused is not None:
                raise refused
            run = RunDirectory.create(result.run_id)
            await job.run(run)
        except asyncio.CancelledError:
            if not interrupts.received and not stopped():
                raise
            result.end_with(cancellation())
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
            # From here on a signal waits: the verdict is reached, and what follows must not be torn.
            interrupts.hold()
            if prepared:
                keep_logs(result, _wanted_output(job))
            _tidy(job, run)
        await _finish(job, use_wanted=prepared)
    if job.options.reports:
        await asyncio.to_thread(_report, job)
    _mirror(job, door)
    door.show(JobEvent("result", data=result.to_json()))
    return result.exit_code


def _mirror(job: Job, door: JobDoor) -> None:
    """A copy of the session where the settings ask for one; that never changes how the run ended."""
    address = job.options.settings.sessions.mirror
    if address and job.result.session_id:
        from ..sessions import SessionStore
        from ..sessions.mirror import copy_after_run

        problem = copy_after_run(SessionStore.open, address, job.result.session_id)
        if problem:
            door.show(JobEvent("warning", problem))


def _wanted_output(job: Job) -> Path:
    wanted = job.options.output or state_dir() / "output" / job.result.run_id
    return wanted.expanduser().absolute()


def _tidy(job: Job, run: RunDirectory | None) -> None:
    """Closes the recording and removes the run's folder; neither may cost the person the result."""
    steps: list[tuple[str, Callable[[], None]]] = []
    recording, result = job.recording, job.result
    job.measured()
    if recording is not None:
        steps.append(("the session was not closed", lambda: recording.end(result.status, result.message)))
    if run is not None:
        steps.append(("the working folder was not removed", run.remove))
    for what, step in steps:
        try:
            step()
        except (OSError, WhimbrelError, sqlite3.Error) as error:
            result.note(f"{what}: {error}")


async def _finish(job: Job, *, use_wanted: bool) -> None:
    """Writes the result and applies the patch when asked to; ``result`` says how that went."""
    result, options = job.result, job.options
    output = _write(job, use_wanted=use_wanted)
    if output is None:
        result.output = ""
        return
    if options.apply and result.patch:
        try:
            await apply_result(Path(result.repository), output)
            result.applied = True
        except WhimbrelError as error:
            result.note(f"the patch was not applied: {error.one_line()}")
            result.exit_code = error.exit_code
        try:
            write_result(result, output, job.attempts.diffs)
        except ConfigError as error:
            result.note(error.one_line())


def _report(job: Job) -> None:
    """Writes the reports that were asked for; one that fails is told and must not look like success."""
    from ..reports.writing import write_reports

    result, options = job.result, job.options
    folder = Path(result.output) if result.output else _wanted_output(job)
    for request in options.reports:
        try:
            write_reports(result.to_json(), folder, [request], stdout_taken=options.quiet_stdout)
        except WhimbrelError as error:
            result.note(f"no {request.format} report: {error.one_line()}")
            result.exit_code = result.exit_code or error.exit_code
            if result.output:
                with contextlib.suppress(ConfigError):
                    write_result(result, folder, job.attempts.diffs)


def _write(job: Job, *, use_wanted: bool) -> Path | None:
    """Writes to the folder asked for, or where that fails to the state folder; None: nowhere."""
    result = job.result
    if result.exit_code == NothingToFix.exit_code and not job.options.keep_uneventful:
        discard_output(_wanted_output(job))
        if job.options.output is None:
            remove_tree(_wanted_output(job))
        return None
    places: list[Callable[[], Path]] = [lambda: state_dir() / "output" / result.run_id]
    if use_wanted:
        places.insert(0, lambda: _wanted_output(job))
    for place in places:
        try:
            output = place()
        except ConfigError as error:
            _missed(result, error)
            continue
        try:
            result.output = str(output)
            write_result(result, output, job.attempts.diffs)
        except ConfigError as error:
            discard_output(output)
            _missed(result, error)
            continue
        if result.repository:
            try:
                remember_result(Path(result.repository), output, verified=bool(result.patch))
            except (ConfigError, OSError) as error:
                result.note(f"`whimbrel apply` will not find this result by itself: {error}")
        return output
    return None


def _missed(result: FixResult, error: ConfigError) -> None:
    # The run's own outcome matters more than where it could be written, and both are told. But a
    # caller that finds nothing where it asked for the result must not see a plain success.
    result.note(error.one_line())
    result.exit_code = result.exit_code or ConfigError.exit_code

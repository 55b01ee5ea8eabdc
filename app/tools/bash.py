"""The ``bash`` tool: a shell command inside the sandbox.

Data of a finished command: ``{"exit_code", "timed_out", "killed", "duration_s", "total_bytes",
"total_lines", "log_artifact": str | None, "ledger_row"}``; of a running background one:
``{"handle", "running": true}`` (a finished one has ``"handle"`` and ``"running": false`` too); of a
list: ``{"jobs": [{"handle", "running", "command"}]}``.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar, Literal

from pydantic import Field

from ...sandbox.base.errors import BudgetExceeded, ToolError
from ...sandbox.base.process import base_environment, missing_variable_hint, render_output
from ...sandbox.base.render import clean_text
from ...sandbox.base.results import ExecResult
from ...sandbox.protocol import run_to_end
from .background import Job, tell_output
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 600.0
MAX_WAIT_S = 300.0
MAX_KEPT_BYTES = 64 << 20
_EARLY_END_S = 0.5
_FIND_BASH = "command -v bash 2>/dev/null || echo /bin/sh"


class BashArguments(ToolArguments):
    command: str = Field(default="", description="What the shell runs, in the repository's top directory.")
    timeout_s: float | None = Field(
        default=None, gt=0, le=MAX_TIMEOUT_S, description="Seconds until it is ended; 120 if not given."
    )
    background: bool = Field(default=False, description="Start it, return a handle at once (servers).")
    handle: str | None = Field(default=None, description="A background command to ask about.")
    action: Literal["poll", "kill", "list"] = Field(
        default="poll", description="With a handle: poll (new output) or kill; list: all handles."
    )
    wait_s: float = Field(default=0, ge=0, le=MAX_WAIT_S, description="poll: wait so long for it to end.")


class BashTool:
    name: ClassVar[str] = "bash"
    arguments: ClassVar[type[ToolArguments]] = BashArguments
    permission: ClassVar[PermissionClass] = PermissionClass.EXECUTE

    async def run(self, context: ToolContext, arguments: BashArguments) -> ToolResult:
        """A failing command is a result, not an error; SandboxDied ends the run.

        Raises:
            ToolError: no command, or an unknown handle.
        """
        if arguments.handle is not None:
            if arguments.command:
                raise ToolError("give a command or a handle, not both")
            return await _attend(context, arguments.handle, arguments.action, arguments.wait_s)
        if arguments.action == "list" and not arguments.command:
            return await _listed(context)
        if not arguments.command.strip():
            raise ToolError("the command is empty")
        if "\0" in arguments.command or any("\ud800" <= one <= "\udfff" for one in arguments.command):
            raise ToolError(
                "the command holds a NUL or half of a surrogate pair, which no command line can",
                hint="write such bytes as escapes, for example with printf",
            )
        argv = [await _shell(context), "-c", arguments.command]
        if arguments.background:
            return await _start(context, argv, arguments)
        tree = await context.workspace.snapshot()
        limit = _time_limit(context, arguments.timeout_s or DEFAULT_TIMEOUT_S)
        handle = await context.sandbox.run(argv, timeout_s=limit, label="bash")
        told = asyncio.ensure_future(tell_output(handle, context.progress, clean_text))
        try:
            result = await handle.wait()
        except BaseException:
            await handle.kill()
            raise
        finally:
            told.cancel()
            await asyncio.wait((told,))
        return await _finished(context, result, tree)


def _time_limit(context: ToolContext, wanted: float) -> float:
    """Never beyond the end of the run."""
    if context.deadline is None:
        return wanted
    left = context.deadline - time.monotonic()
    if left <= 0:
        raise BudgetExceeded("the time for this run is over")
    return min(wanted, left)


async def _shell(context: ToolContext) -> str:
    """bash where the sandbox has it, else /bin/sh; asked once per run."""
    known: str | None = context.scratch.get("shell")
    if known is None:
        asked = await run_to_end(
            context.sandbox, ["/bin/sh", "-c", _FIND_BASH], timeout_s=20, label="find-shell"
        )
        said = asked.head.decode("utf-8", "replace").strip().splitlines()
        known = said[-1] if asked.exit_code == 0 and said and said[-1].startswith("/") else "/bin/sh"
        context.scratch["shell"] = known
    return known


def _jobs(context: ToolContext) -> dict[str, Job]:
    jobs: dict[str, Job] = context.scratch.setdefault("bash_jobs", {})
    return jobs


async def _start(context: ToolContext, argv: list[str], arguments: BashArguments) -> ToolResult:
    tree = await context.workspace.snapshot()
    limit = None if arguments.timeout_s is None else _time_limit(context, arguments.timeout_s)
    handle = await context.sandbox.run(argv, timeout_s=limit, label="bash-background")
    jobs = _jobs(context)
    job = Job(f"job{len(jobs) + 1}", arguments.command, tree, handle)
    jobs[job.name] = job
    # A server that cannot start says so at once; the model should not have to ask.
    if await job.result(_EARLY_END_S) is not None:
        return await _attend(context, job.name, "poll")
    return ToolResult(
        f"Started in the background as {job.name}. Ask with handle={job.name}; end it with action=kill.\n"
        f"{job.take_output(clean_text)}".rstrip(),
        {"handle": job.name, "running": True},
    )


async def _listed(context: ToolContext) -> ToolResult:
    """Every background command of the run, in the order of their start."""
    lines: list[str] = []
    found: list[dict[str, Any]] = []
    for job in _jobs(context).values():
        result = await job.result(0)
        seconds = time.monotonic() - job.started
        state = f"running for {seconds:.1f} s" if result is None else _status(result)
        lines.append(f"{job.name}: {state}: {job.command[:200]}")
        found.append({"handle": job.name, "running": result is None, "command": job.command})
    return ToolResult("\n".join(lines) or "There are no background commands.", {"jobs": found})


async def _attend(context: ToolContext, name: str, action: str, wait_s: float = 0) -> ToolResult:
    job = _jobs(context).get(name)
    if job is None:
        known = ", ".join(_jobs(context)) or "none"
        raise ToolError(f"there is no background command {name!r} (there are: {known})")
    if action == "list":
        raise ToolError("list takes no handle")
    if wait_s:
        wait_s = _time_limit(context, wait_s)
    result = await job.kill() if action == "kill" else await job.result(wait_s)
    output = job.take_output(clean_text)
    if result is None:
        seconds = time.monotonic() - job.started
        text = f"{name} has been running for {seconds:.1f} s. New output:\n{output or '(none)'}"
        return ToolResult(text, {"handle": name, "running": True})
    if job.recorded is None:
        job.recorded = await _record(context, result, job.tree)
    row, artifact = job.recorded
    text = f"{name} has ended: {_status(result)}. New output:\n{output or '(none)'}"
    if artifact:
        text += f"\n[its whole output of {result.total_bytes} bytes: artifact:{artifact}]"
    return ToolResult(
        "\n".join([text, *_notes(context, result)]),
        _data(result, row, artifact) | {"handle": name, "running": False},
        artifacts=(artifact,) if artifact else (),
    )


async def _finished(context: ToolContext, result: ExecResult, tree: str) -> ToolResult:
    row, artifact = await _record(context, result, tree)
    where = f"artifact:{artifact}" if artifact else f"evidence row {row} (too large to be kept here)"
    shown = await asyncio.to_thread(render_output, result, log_name=where)
    parts = [_status(result).capitalize() + ".", *_notes(context, result)]
    parts.append(shown if result.total_bytes else "(no output)")
    return ToolResult(
        "\n".join(parts), _data(result, row, artifact), artifacts=(artifact,) if artifact else ()
    )


async def _record(context: ToolContext, result: ExecResult, tree: str) -> tuple[int, str | None]:
    """Writes the evidence row and keeps the log; returns the row's number and the log's handle."""
    about = context.sandbox.describe()
    row = context.ledger.record(
        purpose="tool",
        argv=result.argv,
        cwd=result.cwd,
        sandbox_kind=about.kind,
        image_digest=about.image_digest,
        tree=tree,
        fresh_process=True,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        duration_s=result.duration_s,
        log_sha256=result.log_sha256,
        log_path=str(result.log_path),
    )
    artifact: str | None = None
    if result.total_bytes and result.log_path.stat().st_size <= MAX_KEPT_BYTES:
        log = await asyncio.to_thread(result.log_path.read_bytes)
        artifact = context.keep(log, "text/plain")
    return row.number, artifact


def _status(result: ExecResult) -> str:
    if result.timed_out:
        return f"ended at its time limit after {result.duration_s:.1f} s, exit code {result.exit_code}"
    if result.killed:
        return f"ended on request after {result.duration_s:.1f} s, exit code {result.exit_code}"
    return f"exit code {result.exit_code} after {result.duration_s:.1f} s"


def _notes(context: ToolContext, result: ExecResult) -> list[str]:
    notes = [f"[{result.note}]"] if result.note else []
    if result.exit_code != 0 and "environment" not in result.note:
        known = {**base_environment(), **context.sandbox.spec.env}
        hint = missing_variable_hint(result.head + result.tail, known)
        notes += [f"[{hint}]"] if hint else []
    return notes


def _data(result: ExecResult, row: int, artifact: str | None) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "killed": result.killed,
        "duration_s": result.duration_s,
        "total_bytes": result.total_bytes,
        "total_lines": result.total_lines,
        "log_artifact": artifact,
        "ledger_row": row,
    }

"""A batch from its file to its exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...sandbox.base.errors import Cancelled, Terminated, UsageError
from .local import Pool
from .store import ResultStore
from .table import make_board
from .tasks import MAX_BYTES, Task, read_tasks

if TYPE_CHECKING:
    from .on_ray import RayPool

UNFINISHED = (130, 143)
"""Exit codes of runs that were ended from outside: they have no result yet and are done again."""


@dataclass(frozen=True)
class BatchOptions:
    """What `whimbrel batch` was asked to do."""

    issues: str
    """The file, or "-"."""
    output: Path
    jobs: int | None
    """None: half of the processors here, all of the cluster's there."""
    ray: str | None = None
    again: tuple[str, ...] = ()
    as_json: bool = False
    arguments: tuple[str, ...] = ()
    """Further options of fix-issue, for every issue."""


def run_batch(options: BatchOptions) -> int:
    """Runs what has no result yet. Returns 0 when every issue of the file is fixed, else 4.

    Raises:
        UsageError, ConfigError: nothing was run, or what was done is recorded.
        Cancelled: interrupted; the same command goes on where it was.
    """
    tasks, ignored = _tasks(options.issues)
    if ignored:
        _say(f"fields that mean nothing here: {', '.join(sorted(ignored))}")
    store = ResultStore(options.output)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return _run(options, tasks, store)
    finally:
        signal.signal(signal.SIGTERM, before)
        store.close()


def _run(options: BatchOptions, tasks: Sequence[Task], store: ResultStore) -> int:
    todo = [task for task in tasks if not store.done(task, options.again)]
    failed = 0
    if todo:
        pool = _pool(options)
        board = make_board(len(todo), len(tasks) - len(todo), as_json=options.as_json)
        try:
            for ended in pool.run(todo):
                if ended is None:
                    board.tick(pool.running)
                elif ended.result.get("exit_code") in UNFINISHED:
                    failed += 1
                else:
                    board.ended(store.add(ended.task, ended.result, node=ended.node))
        except KeyboardInterrupt as error:
            done = sum(store.done(task, ()) for task in tasks)
            kind = Terminated if isinstance(error, _Terminate) else Cancelled
            raise kind(
                f"interrupted with {done} of {len(tasks)} done", hint="the same command goes on from there"
            ) from error
        finally:
            board.close()
    fixed = sum(store.results.get(task.id, {}).get("status") == "fixed" for task in tasks)
    _say(f"{fixed} of {len(tasks)} fixed; results in {store.folder / 'results.jsonl'}")
    if failed:
        _say(f"{failed} were ended from outside and have no result; run the same command again")
    return 0 if fixed == len(tasks) else 4


def _pool(options: BatchOptions) -> Pool | RayPool:
    if options.ray is None:
        import os

        jobs = options.jobs or max(1, (os.cpu_count() or 2) // 2)
        return Pool(options.output, options.arguments, jobs)
    from .on_ray import RayPool

    return RayPool(options.output, options.arguments, options.jobs, options.ray)


def _tasks(issues: str) -> tuple[list[Task], set[str]]:
    try:
        if issues == "-":
            return read_tasks(sys.stdin, Path.cwd())
        path = Path(issues)
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{issues} is over {MAX_BYTES >> 30} GiB", hint="split it")
        with path.open(encoding="utf-8") as file:
            return read_tasks(file, path.absolute().parent)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is no UTF-8 ({error.reason})"
        raise UsageError(f"{issues} cannot be read: {why}", hint="one JSON object a line") from error


class _Terminate(KeyboardInterrupt):
    """SIGTERM, as something that ends a run like Ctrl-C does."""


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: the clean-up must not be torn
    raise _Terminate


def _say(text: str) -> None:
    sys.stderr.write(f"whimbrel: {text}\n")
    sys.stderr.flush()

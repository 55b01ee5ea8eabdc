"""A pool of runs on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from .one import run_one
from .tasks import Task


class Ended(NamedTuple):
    """A run that is over."""

    task: Task
    result: dict[str, Any]
    node: str = ""


class Pool:
    """Runs tasks ``jobs`` at a time, each as a process of its own."""

    def __init__(self, folder: Path, arguments: Sequence[str], jobs: int) -> None:
        self._folder, self._arguments, self._jobs = folder, list(arguments), jobs
        self.running: dict[str, None] = {}
        """Ids of what runs now, in order of start."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Ended | None]:
        """Results as they come; None now and then, so that a table can be drawn anew.

        An interruption (KeyboardInterrupt in the caller's thread) ends what runs and is passed on.
        """
        stop = threading.Event()
        with ThreadPoolExecutor(self._jobs) as threads:
            waiting: dict[Future[dict[str, Any]], Task] = {}
            left = list(reversed(tasks))
            try:
                while left or waiting:
                    while left and len(waiting) < self._jobs:
                        task = left.pop()
                        self.running[task.id] = None
                        waiting[threads.submit(self._one, task, stop)] = task
                    done, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                    for future in done:
                        task = waiting.pop(future)
                        self.running.pop(task.id, None)
                        yield Ended(task, future.result())
                    if not done:
                        yield None
            finally:
                stop.set()

    def _one(self, task: Task, stop: threading.Event) -> dict[str, Any]:
        try:
            return run_one(
                [*self._arguments, *task.arguments()], task.issue, self._folder / "runs" / task.folder, stop
            )
        except OSError as error:
            return {
                "status": "internal_error",
                "exit_code": 1,
                "message": f"it could not be started: {error}",
            }

"""Runs jobs for the interface: one at a time, on a thread with an event loop of its own.

What a job tells lands in a queue that the interface empties a few times a second, so a
stream of tokens costs one repaint each time and blocking work of a job never stops the keys.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..fix.events import JobEvent

if TYPE_CHECKING:
    from ..agent.events import PermissionAnswer, PermissionRequest
    from ..fix.main import Job
    from ..fix.options import FixOptions
    from ..talk.options import TalkOptions
    from ..tools.base import Question


@dataclass(frozen=True)
class AskedPermission:
    """The run waits until ``reply`` has a result; a cancelled reply needs no answer any more."""

    request: PermissionRequest
    reply: Future[PermissionAnswer]


@dataclass(frozen=True)
class AskedQuestion:
    """A question of the model; an empty answer means none."""

    question: Question
    reply: Future[str]


@dataclass(frozen=True)
class JobEnded:
    """The last thing a job gives; ``problem`` says in one line why there is no result, or is empty."""

    exit_code: int
    problem: str = ""


Told = JobEvent | AskedPermission | AskedQuestion | JobEnded


class Driver:
    """``start`` a job, ``drain`` what it tells, ``stop`` it; never touches a widget."""

    def __init__(self) -> None:
        self._told: deque[Told] = deque()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[int] | None = None
        self._stopped = threading.Event()

    @property
    def running(self) -> bool:
        """Whether a job goes on, or its end is still in the queue."""
        return self._thread is not None

    @property
    def stopping(self) -> bool:
        return self.running and self._stopped.is_set()

    def talk(self, options: TalkOptions) -> None:
        """One turn of a conversation."""

        def make(show: Callable[[JobEvent], None]) -> Job:
            from ..fix.rundir import new_run_id
            from ..talk.turn import Turn

            return Turn(replace(options, base=replace(options.base, person=_Person(self._put))), new_run_id(),
                        show)  # fmt: skip

        self.start(make)

    def fix(self, options: FixOptions) -> None:
        """The fix-issue job."""

        def make(show: Callable[[JobEvent], None]) -> Job:
            from ..fix.job import FixJob
            from ..fix.rundir import new_run_id

            return FixJob(replace(options, person=_Person(self._put)), new_run_id(), show)

        self.start(make)

    def start(self, make: Callable[[Callable[[JobEvent], None]], Job]) -> None:
        """Runs what ``make`` gives; it is made on the job's own thread, where its imports cost nobody.

        Raises:
            RuntimeError: a job is running.
        """
        if self._thread is not None:
            raise RuntimeError("a job is running")
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, args=(make,), name="whimbrel-job", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the job in an orderly way; its result still comes. Safe to call twice."""
        if self._thread is None or self._stopped.is_set():
            return
        self._stopped.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    def wait(self, seconds: float) -> bool:
        """Waits for the thread; whether it ended."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def drain(self) -> list[Told]:
        """Everything told since the last call, text and thinking of one step joined."""
        told: list[Told] = []
        while self._told:
            item = self._told.popleft()
            if isinstance(item, JobEnded):
                if self._thread is not None:
                    self._thread.join(5.0)
                self._thread = self._loop = self._task = None
            before = told[-1] if told else None
            if isinstance(item, JobEvent) and isinstance(before, JobEvent) and _joinable(before, item):
                pieces: list[str] = before.data["pieces"]
                pieces.append(item.data["text"])
                continue
            told.append(_opened(item))
        return [_closed(item) for item in told]

    def _put(self, item: Told) -> None:
        self._told.append(item)

    def _run(self, make: Callable[[Callable[[JobEvent], None]], Job]) -> None:
        code, problem = 1, ""
        try:
            code = asyncio.run(self._main(make))
        except asyncio.CancelledError:
            problem = "the run was stopped"
        except BaseException as error:  # noqa: BLE001 - the interface must learn of every end
            problem = f"{type(error).__name__}: {error}"
        self._put(JobEnded(code, problem))

    async def _main(self, make: Callable[[Callable[[JobEvent], None]], Job]) -> int:
        from ..fix.main import run_job

        door = _Door(self._put)
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(
            run_job(make(door.show), door, debug=False, stopped=self._stopped.is_set)
        )
        if self._stopped.is_set():
            # Stopped before there was a task to cancel.
            self._task.cancel()
        return await self._task


class _Door:
    def __init__(self, put: Callable[[Told], None]) -> None:
        self._put = put

    def show(self, event: JobEvent) -> None:
        self._put(event)

    def close(self) -> None:
        return


class _Person:
    """Asks through the queue; a cancelled run takes its question back."""

    def __init__(self, put: Callable[[Told], None]) -> None:
        self._put = put

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        reply: Future[PermissionAnswer] = Future()
        self._put(AskedPermission(request, reply))
        return await asyncio.wrap_future(reply)

    async def question(self, question: Question) -> str:
        reply: Future[str] = Future()
        self._put(AskedQuestion(question, reply))
        return await asyncio.wrap_future(reply)


_STREAMED = ("text_delta", "reasoning_delta")


def _joinable(before: JobEvent, event: JobEvent) -> bool:
    kind = event.data.get("kind") if event.kind == "agent" else None
    return kind in _STREAMED and before.kind == "agent" and before.data.get("kind") == kind


def _opened(item: Told) -> Told:
    if isinstance(item, JobEvent) and item.kind == "agent" and item.data.get("kind") in _STREAMED:
        return JobEvent("agent", data={**item.data, "pieces": [item.data["text"]]})
    return item


def _closed(item: Told) -> Told:
    if isinstance(item, JobEvent) and "pieces" in item.data:
        data: dict[str, Any] = {key: value for key, value in item.data.items() if key != "pieces"}
        return JobEvent("agent", data={**data, "text": "".join(item.data["pieces"])})
    return item

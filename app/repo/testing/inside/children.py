"""A candidate's process: what it tells, and how its parent sees it."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List

_WALL_FACTOR = 3.0
_WALL_EXTRA_S = 5.0
_GOOD = ("passed", "xfailed", "xpassed")


class PipeStream:
    """Stands in for the report file in a child: outcomes go to the parent."""

    def __init__(self, descriptor: int, watch: Any) -> None:
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._watch = watch
        self._write = os.write
        self._pid = os.getpid
        self._encode = json.JSONEncoder(ensure_ascii=True).encode
        self.index: Dict[str, int] = {}
        self.current = -1
        self.bad = 0

    def emit(self, event: str, **values: Any) -> None:
        if self._pid() != self._owner:
            return
        if event == "test":
            if values["outcome"] not in _GOOD:
                self.bad += 1
            index, reached = self.index.get(values["id"], -1), values.get("reached", 0)
            self.send([index, values["outcome"], self._watch.take(), reached])
        elif event == "test_start":
            self.current = self.index.get(values["id"], -1)
            # What fixtures of a whole module do belongs to no test alone.
            self._outside()

    def _outside(self) -> None:
        kinds = self._watch.take()
        if kinds:
            self.send([-1, "", kinds, 0])

    def finish(self) -> None:
        """The last word."""
        self._outside()
        self.send("end")

    def send(self, message: Any) -> None:
        data = memoryview(self._encode(message).encode("ascii") + b"\n")
        while data:
            data = data[self._write(self._descriptor, data) :]


class Child:
    """A running candidate as its parent sees it."""

    def __init__(self, message: Dict[str, Any], mode: str, pid: int, pipe: int, scratch: str) -> None:
        self.id = message["id"]
        self.mode = mode
        self.pid = pid
        self.pipe = pipe
        self.scratch = scratch
        self.started = time.monotonic()
        self._cpu = [float(stage["cpu_s"]) for stage in message["stages"]]
        self.data = b""
        self.stages: List[List[List[Any]]] = []
        self.marks: Dict[int, List[str]] = {}
        self.reached: Dict[int, int] = {}
        self.probed: List[Any] = []
        self.versions: List[bool] = []
        self.ended = False
        self.deadline = self.started + _WALL_EXTRA_S

    def read(self) -> bool:
        """Takes what has arrived; False at the end."""
        part = os.read(self.pipe, 1 << 16)
        lines = (self.data + part).split(b"\n")
        self.data = lines.pop()
        for line in lines:
            self._take(json.loads(line.decode("ascii")))
        return bool(part) and not self.ended

    def _take(self, message: Any) -> None:
        if message == "end":
            self.ended = True
        elif isinstance(message, dict):
            self.probed.append(message["probed"])
        elif message == "stage":
            cpu = self._cpu[len(self.stages)]
            self.stages.append([])
            # Processor time is what counts; the wall clock only ends what sleeps or waits for nothing.
            self.deadline = time.monotonic() + _WALL_FACTOR * cpu + _WALL_EXTRA_S
        elif self.stages:
            index, outcome, marks, reached = message
            if outcome:
                self.stages[-1].append([index, outcome])
            if reached:
                self.reached[index] = reached
            if marks:
                self.marks[index] = sorted({*self.marks.get(index, ()), *marks})

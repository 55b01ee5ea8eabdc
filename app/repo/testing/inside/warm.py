"""A process that has collected the tests and then forks once per candidate.

Messages are framed as in processes.py. First ours::

    {"hello": true, "threads": n, "ids": [...], "errors": [paths that could not be collected]}

then for each ``{"id": n, "edits": {path: [[start, end, text], ...]}, "memory_bytes": n,
"stages": [{"tests": [indexes into ids], "stop_first": bool, "cpu_s": s}, ...]}`` one of::

    {"id": n, "refused": reason}
    {"id": n, "mode": "swap" | "import" | "none", "stages": [[[index, outcome], ...], ...],
     "ended": bool, "stopped": "cpu" | "wall" | "", "exit_code": n, "duration_s": s,
     "marks": {index: [kinds]}, "reached": {index: line}}

Answers come in the order in which candidates end. Stages run in order; a later one only when
every test of those before passed. A message without edits runs the tests as they are. ``marks``
says what a test did that a forked process shares with others: see watching.py (index -1: outside of
tests); ``reached``, at which of its own lines a bad test ended. ``{"cancel": n}`` ends a candidate; no
answer follows.

A message without edits may also ask ``"probe": {"versions": [{path: edits}, ...], "sources":
[paths], "most": n, "seed": n}``: the answer then has ``"probed": [[index of the test, call,
neighbour, [[fingerprint, shown], ...]], ...]`` (see probing.py), where the first version is the
program as it is, and ``"versions": [whether each could be made]``.
"""

from __future__ import annotations

import collections
import gc
import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from . import inherited, overlay, probing, processes, watching
from .children import Child, PipeStream
from .recording import CallRecord
from .session import Session
from .swapping import Refused, Swap, Swapper

_LEAVE_S = 0.3
"""For a child that has said its last word, or closed its side, to be gone."""
_POLL_S = 0.05

RunTests = Callable[[List[int], bool], None]
"""Runs tests by index in order, stopping at the first bad one when asked."""


class Server:
    """Serves candidates once the tests are collected.

    Args:
        wire: the stream to the other side.
        root: the repository.
        scratch: a directory of this server alone.
        workers: children at a time.
    """

    def __init__(self, wire: processes.Wire, root: str, scratch: str, workers: int) -> None:
        self._wire = wire
        self._root = root
        self._scratch = scratch
        self._workers = workers
        self._calls = CallRecord(root)
        self._children: Dict[int, Child] = {}
        self._waiting: Deque[Dict[str, Any]] = collections.deque()
        self._count = 0
        self._opened_before = inherited.descriptors()
        self._files: List[inherited.OpenFile] = []
        self.served = False

    def record_calls(self) -> None:
        """From here on functions that run are not exchanged later."""
        self._calls.start()

    def serve(self, session: Session, ids: List[str], run: RunTests) -> None:
        """Answers until the stream ends."""
        self.served = True
        # Before the record ends: finalisers are code of the project too.
        gc.collect()
        self._calls.stop()
        self._session = session
        self._ids = ids
        self._run = run
        self._swapper = Swapper(self._root, self._calls)
        gc.freeze()
        self._files, shared = inherited.look(self._opened_before)
        hello = {"hello": True, "threads": processes.thread_count(), "ids": ids, "errors": session.broken}
        self._wire.send({**hello, "shared": shared})
        processes.become_subreaper()
        open_stream = True
        while open_stream or self._children or self._waiting:
            while self._waiting and len(self._children) < self._workers:
                self._start(self._waiting.popleft())
            watched: List[int] = list(self._children)
            if open_stream:
                watched.append(self._wire.source)
            ready, _, _ = select.select(watched, [], [], self._patience())
            for descriptor in ready:
                if descriptor == self._wire.source:
                    message = self._wire.receive()
                    if message is None:
                        self._end_all()
                        return
                    if "cancel" in message:
                        self._cancel(message["cancel"])
                    else:
                        self._waiting.append(message)
                elif descriptor in self._children and not self._children[descriptor].read():
                    self._finish(descriptor, "")
            self._end_late()

    def _patience(self) -> Optional[float]:
        if not self._children:
            return None
        nearest = min(child.deadline for child in self._children.values())
        return max(0.0, min(_POLL_S, nearest - time.monotonic()))

    def _start(self, message: Dict[str, Any]) -> None:
        action: Callable[[], None] = _nothing
        mode = "none"
        if message["edits"]:
            try:
                mode, action = self._action(message["edits"])
            except SyntaxError:
                self._wire.send({"id": message["id"], "refused": "SyntaxError"})
                return
            except Exception as error:  # noqa: BLE001  an edit the compiler chokes on must not end the server
                reason = str(error) if isinstance(error, Refused) else type(error).__name__
                self._wire.send({"id": message["id"], "refused": reason})
                return
        versions: List[Any] = []
        made: List[bool] = []
        for version in message.get("probe", {}).get("versions", ()):
            swaps = self._version(version)
            made.append(swaps is not None)
            if swaps is not None:
                versions.append(swaps)
        self._count += 1
        scratch = os.path.join(self._scratch, "child-%d" % self._count)
        source, target = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(source)
            self._child(message, action, versions, target, scratch)
        os.close(target)
        child = self._children[source] = Child(message, mode, pid, source, scratch)
        child.versions = made

    def _version(self, version: Dict[str, List[List[Any]]]) -> Optional[List[Swap]]:
        try:
            return [self._swapper.plan(path, edits) for path, edits in version.items()]
        except Exception:  # noqa: BLE001  whatever it is
            # Not by exchanging code: this version is not compared, and the answer says so.
            return None

    def _action(self, files: Dict[str, List[List[Any]]]) -> Tuple[str, Callable[[], None]]:
        """Exchanges code in what is imported, and lays the edits over what is not yet."""
        swaps: List[Swap] = []
        later: Dict[str, List[List[Any]]] = {}
        for path, edits in files.items():
            if self._swapper.is_imported(path):
                swaps.append(self._swapper.plan(path, edits))
            else:
                self._swapper.require_unread(path)
                later[path] = edits

        def act() -> None:
            for swap in swaps:
                swap.apply()
            if later:
                overlay.install(self._root, later)

        return "import" if later else "swap", act

    def _child(
        self,
        message: Dict[str, Any],
        action: Callable[[], None],
        versions: List[Any],
        pipe: int,
        scratch: str,
    ) -> None:
        """The forked process; never returns."""
        code = 70
        try:
            self._wire.close()
            for other in self._children:
                os.close(other)
            os.mkdir(scratch)
            cpu = sum(float(stage["cpu_s"]) for stage in message["stages"])
            # Nobody reads what it prints, and there may be very much of it.
            processes.begin_child(os.devnull, cpu + 2, int(message["memory_bytes"]))
            _own_temporary_files(self._session, scratch)
            for file in self._files:
                file.open_anew()
            action()
            edited = frozenset(os.path.realpath(os.path.join(self._root, path)) for path in message["edits"])
            watch = watching.Watch(self._root, scratch, edited)
            watch.start()
            stream = PipeStream(pipe, watch)
            stream.index = {test_id: index for index, test_id in enumerate(self._ids)}
            self._session.adopt(stream)
            probe = self._probe(message, versions, stream, watch) if "probe" in message else None
            for stage in message["stages"]:
                stream.send("stage")
                signal.setitimer(signal.ITIMER_PROF, float(stage["cpu_s"]))
                self._run(list(stage["tests"]), bool(stage["stop_first"]))
                if stream.bad:
                    break
            signal.setitimer(signal.ITIMER_PROF, 0)
            if probe is not None:
                probe.stop()
            stream.finish()
            code = 0
        except BaseException:  # noqa: BLE001  whatever it was must reach the log, not the server's loop
            traceback.print_exc()
        finally:
            os._exit(code)

    def _probe(self, message: Dict[str, Any], versions: List[Any], stream: PipeStream, watch: Any) -> Any:
        wanted = message["probe"]
        sources = frozenset(os.path.realpath(os.path.join(self._root, path)) for path in wanted["sources"])
        known: Dict[str, bool] = {}

        def is_project(filename: str) -> bool:
            if filename not in known:
                known[filename] = os.path.realpath(filename) in sources
            return known[filename]

        def send(found: List[Any]) -> None:
            stream.send({"probed": [stream.current, *found]})

        every = [probing.Version([])]
        every.extend(probing.Version([each for swap in swaps for each in swap.codes]) for swaps in versions)
        probe = probing.Probe(every, is_project, send, int(wanted["most"]), int(wanted["seed"]), watch)
        probe.start()
        return probe

    def _finish(self, descriptor: int, stopped: str) -> None:
        child = self._children.pop(descriptor)
        os.close(descriptor)
        if child.ended:
            # All is said: the other side prepares the next candidate while this one's memory is given back.
            self._answer(child, stopped, 0)
        status = processes.end_child(child.pid, 0.0 if stopped else _LEAVE_S)
        self._end_orphans()
        shutil.rmtree(child.scratch, ignore_errors=True)
        if not child.ended:
            code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            limits = (128 + signal.SIGPROF, 128 + signal.SIGXCPU)
            self._answer(child, "cpu" if code in limits else stopped, code)

    def _answer(self, child: Child, stopped: str, code: int) -> None:
        self._wire.send(
            {
                "id": child.id,
                "mode": child.mode,
                "stages": child.stages,
                "ended": child.ended,
                "stopped": stopped,
                "exit_code": code,
                "duration_s": time.monotonic() - child.started,
                "marks": child.marks,
                "reached": child.reached,
                "probed": child.probed,
                "versions": child.versions,
            }
        )

    def _end_late(self) -> None:
        now = time.monotonic()
        for descriptor, child in list(self._children.items()):
            if now > child.deadline:
                self._finish(descriptor, "wall")

    def _cancel(self, number: int) -> None:
        for message in list(self._waiting):
            if message["id"] == number:
                self._waiting.remove(message)
        for descriptor, child in list(self._children.items()):
            if child.id == number:
                self._end(descriptor)

    def _end_all(self) -> None:
        for descriptor in list(self._children):
            self._end(descriptor)

    def _end(self, descriptor: int) -> None:
        child = self._children.pop(descriptor)
        os.close(descriptor)
        processes.end_child(child.pid, 0.0)
        self._end_orphans()
        shutil.rmtree(child.scratch, ignore_errors=True)

    def _end_orphans(self) -> None:
        """Programs that left a test's session and were still there when it ended."""
        processes.end_orphans([child.pid for child in self._children.values()])


def _own_temporary_files(session: Session, scratch: str) -> None:
    """Children run at the same time: each has a temporary directory of its own."""
    import tempfile

    os.environ["TMPDIR"] = scratch
    tempfile.tempdir = None
    session.own_temporary_files(os.path.join(scratch, "tmp"))


def _nothing() -> None:
    """A run without edits."""


def main() -> int:
    """``config``: root, scratch, workers and the request (see launch.run_request)."""
    with open(sys.argv[1], "rb") as file:
        config: Dict[str, Any] = json.loads(file.read().decode("utf-8"))
    wire = processes.take_stream()
    os.chdir(config["root"])
    launch: Any = sys.modules["launch"]
    launch.prepare_interpreter(config["root"])
    os.makedirs(config["scratch"], exist_ok=True)
    server = Server(wire, config["root"], config["scratch"], int(config["workers"]))
    server.record_calls()
    code = launch.run_request(config["request"], server.serve)
    if not server.served:
        wire.send({"hello": False, "exit_code": code})
    shutil.rmtree(config["scratch"], ignore_errors=True)
    return int(code)

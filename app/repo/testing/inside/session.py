"""What the pytest and the unittest helper share: selection, events, limits, coverage of one run."""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import Any, Callable, Dict, List, Optional

from . import origin
from .limits import TestClock
from .lines import LineRecorder
from .stream import OUTPUT_LIMIT, Places, Stream, clip, describe
from .values import Observer


class Selection:
    """Which ids were asked for; an id also selects everything below it."""

    def __init__(self, wanted: Optional[List[str]]) -> None:
        self._wanted = wanted
        self._exact = frozenset(wanted or ())
        self._matched: Dict[str, bool] = {}

    @property
    def everything(self) -> bool:
        return self._wanted is None

    def takes(self, test_id: str) -> bool:
        """Whether the test is wanted; remembers which wishes found something."""
        if self._wanted is None:
            return True
        if test_id in self._exact:
            self._matched[test_id] = True
            return True
        for wish in self._wanted:
            if test_id.startswith(wish) and test_id[len(wish) :][:1] in (":", "[", "/", "."):
                self._matched[wish] = True
                return True
        return False

    def unmatched(self) -> List[str]:
        return [wish for wish in self._wanted or () if wish not in self._matched]


Serve = Callable[["Session", List[str], Callable[[List[int], bool], None]], None]
"""Called with the ids, and a function that runs tests by index, stopping at the first bad one if asked."""


def _keep_place(_path: str) -> None:
    """For frameworks without a temporary directory of their own."""


class Session:
    """One run inside: emits the events; holds no results."""

    def __init__(
        self,
        request: Dict[str, Any],
        stream: Stream,
        places: Places,
        clock: TestClock,
        recorder: Optional[LineRecorder],
        observer: Optional[Observer] = None,
    ) -> None:
        self.request = request
        self.stream = stream
        self.places = places
        self.clock = clock
        self.selection = Selection(request["select"])
        self.fail_fast: bool = request["fail_fast"]
        self.collect_only: bool = request["collect_only"]
        self.serve: Optional[Serve] = None
        """Takes over once the tests are collected, instead of running them."""
        self.broken: List[str] = []
        """Paths of files that could not be collected."""
        self.own_temporary_files: Callable[[str], None] = _keep_place
        """Moves the framework's temporary directory; for forked children that run side by side."""
        self._recorder = recorder
        self._observer = observer
        self._now: Callable[[], float] = time.perf_counter
        self._pid = os.getpid()
        self._started = 0.0

    def begin(self) -> None:
        """First event; starts line recording (what runs before the first test is collection)."""
        self.stream.emit(
            "start", python=platform.python_version(), executable=sys.executable, pid=os.getpid()
        )
        if self._recorder is not None:
            self._recorder.start()
        if self._observer is not None:
            self._observer.start()

    def end(self, code: int) -> None:
        """Last event: exit code, and where modules came from."""
        if self._recorder is not None:
            self._recorder.stop()
            self._emit_lines("")
            if self._recorder.note:
                self.stream.emit("note", text=self._recorder.note)
        if self._observer is not None:
            self._observer.stop()
            self._emit_values("")
            if self._observer.note:
                self.stream.emit("note", text=self._observer.note)
        found: Dict[str, Any] = {}
        if self.request["survey"]:
            found["elsewhere"] = origin.imported_elsewhere(self.places, self.request["import_roots"])
            found["preload"] = origin.preloadable(self.places)
        self.stream.emit("end", code=code, **found)

    def leave_if_forked(self, error: Optional[BaseException]) -> None:
        """Ends a child that a test forked and that came back out of the test.

        It would run the rest of the suite a second time, unseen, with all side effects.
        """
        if os.getpid() != self._pid:
            code = error.code if isinstance(error, SystemExit) else 1
            os._exit(code if isinstance(code, int) else int(code is not None))

    def adopt(self, stream: Any) -> None:
        """This process, a forked child, goes on with the session and reports to ``stream``."""
        self._pid = os.getpid()
        self.stream = stream

    def collected(self, ids: List[str]) -> None:
        self.stream.emit("collected", ids=ids, unmatched=self.selection.unmatched())

    def problem(self, kind: str, detail: str) -> None:
        self.stream.emit("problem", kind=kind, detail=clip(detail, 2000))

    def collection_error(self, path: str, error: Optional[BaseException], text: str = "") -> None:
        """A file that could not be collected; ``text`` where no exception is at hand."""
        self.broken.append(path)
        if error is None:
            values: Dict[str, Any] = {"exception": "CollectError", "message": clip(text, 4000), "frames": []}
        else:
            values = describe(error, self.places)
            if isinstance(error, ImportError):
                values.update(self._about_import(error))
        self.stream.emit("collection_error", path=path, **values)

    def _about_import(self, error: ImportError) -> Dict[str, Any]:
        """What was missing, and whether the repository itself should have had it."""
        name = error.name or ""
        top = name.split(".")[0]
        root = self.places.root
        folders = [root]
        folders.extend(os.path.join(root, folder) for folder in self.request["import_roots"])
        folders.extend(entry for entry in sys.path if self.places.relative(os.path.join(entry or ".", "x")))
        folders.append(os.path.join(root, "src"))
        base = name.replace(".", os.sep)
        tops = [os.path.join(folder, top) for folder in folders]
        owned = bool(top) and any(os.path.isdir(path) or os.path.isfile(path + ".py") for path in tops)
        sources = [".pyx", ".c", ".cpp", ".rs", ".pyx.in", ".py.in", ".in", ".f90"]
        unbuilt = bool(name) and (
            name.split(".")[-1] in ("_version", "version", "__version__", "_generated")
            or any(os.path.isfile(os.path.join(folder, base) + end) for folder in folders for end in sources)
        )
        source = getattr(error, "path", None) or ""
        outside = bool(source) and self.places.relative(source) is None
        return {"missing": name, "owned": owned, "unbuilt": owned and unbuilt, "outside": outside}

    def test_started(self, test_id: str) -> None:
        """Also ends what is counted as collection, or as the time between two tests."""
        if self._recorder is not None:
            self._emit_lines("")
            self._recorder.renew()
        self._emit_values("")
        self.stream.emit("test_start", id=test_id)
        self._started = self._now()
        self.clock.new_test()

    def test_ended(self, test_id: str, outcome: str, **values: Any) -> None:
        """Keys of values: phase, exception, message, frames, output, path, line."""
        duration = self._now() - self._started
        if self._recorder is not None:
            self._emit_lines(test_id)
        self._emit_values(test_id)
        values["output"] = clip(values.get("output", ""), OUTPUT_LIMIT)
        self.stream.emit("test", id=test_id, outcome=outcome, duration=round(duration, 6), **values)

    def _emit_lines(self, test_id: str) -> None:
        if self._recorder is None:
            return
        taken = self._recorder.take()
        if taken:
            self.stream.emit("lines", id=test_id, files=taken)

    def _emit_values(self, test_id: str) -> None:
        taken = None if self._observer is None else self._observer.take()
        if taken is not None:
            self.stream.emit("values", id=test_id, **taken)

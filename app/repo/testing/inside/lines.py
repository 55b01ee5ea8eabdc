"""Which lines of the repository each test executes.

Python 3.12 and later: ``sys.monitoring``, switched off per line after its first
event and switched on again for the next test. Before: ``sys.settrace``.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable, Dict, List, Set

from .stream import Places


def compact(lines: Set[int]) -> List[List[int]]:
    """Sorted ``[first, last]`` runs."""
    runs: List[List[int]] = []
    for line in sorted(lines):
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return runs


class LineRecorder:
    """Base: holds the lines since the last ``take``."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lines: Dict[str, Set[int]] = {}
        self.note = ""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def renew(self) -> None:
        """Makes sure that the next test's lines are seen."""
        raise NotImplementedError

    def take(self) -> Dict[str, List[List[int]]]:
        """Path to line runs since the last call; forgets them."""
        taken = {path: compact(set(lines)) for path, lines in list(self._lines.items()) if lines}
        for lines in list(self._lines.values()):
            lines.clear()
        return taken

    def _set_for(self, filename: str) -> Any:
        """The set that collects the file's lines, or None when it is not the repository's."""
        relative = self._places.relative(filename)
        if relative is None:
            return None
        return self._lines.setdefault(relative, set())


class MonitoringRecorder(LineRecorder):
    """``sys.monitoring`` on a free tool number."""

    def start(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool = next((n for n in (4, 3, 2, 5, 1, 0) if monitoring.get_tool(n) is None), -1)
        if self._tool < 0:
            self.note = "every monitoring tool number is taken; no line coverage"
            return
        self._monitoring = monitoring
        self._sets: Dict[Any, Any] = {}
        disable = monitoring.DISABLE
        line_event = monitoring.events.LINE
        tool = self._tool
        sets: Dict[str, Any] = {}
        set_for = self._set_for

        def on_start(code: Any, _offset: int) -> Any:
            filename = code.co_filename
            if filename not in sets:
                sets[filename] = set_for(filename)
            if sets[filename] is not None and monitoring.get_tool(tool) is not None:
                monitoring.set_local_events(tool, code, line_event)
            return disable

        def on_line(code: Any, line: int) -> Any:
            lines = sets.get(code.co_filename)
            if lines is not None:
                lines.add(line)
            return disable

        monitoring.use_tool_id(tool, "whimbrel")
        monitoring.register_callback(tool, monitoring.events.PY_START, on_start)
        monitoring.register_callback(tool, line_event, on_line)
        monitoring.set_events(tool, monitoring.events.PY_START)

    def renew(self) -> None:
        if self._tool >= 0:
            if self._monitoring.get_tool(self._tool) != "whimbrel":
                self.note = "the tests took over sys.monitoring; line coverage is partial"
                return
            self._monitoring.restart_events()

    def stop(self) -> None:
        if self._tool >= 0 and self._monitoring.get_tool(self._tool) == "whimbrel":
            self._monitoring.set_events(self._tool, 0)
            self._monitoring.free_tool_id(self._tool)


class TracingRecorder(LineRecorder):
    """``sys.settrace`` and ``threading.settrace``."""

    def start(self) -> None:
        local_for: Dict[str, Any] = {}
        set_for = self._set_for

        def make_local(lines: Set[int]) -> Callable[[Any, str, Any], Any]:
            add = lines.add

            def local(frame: Any, event: str, _argument: Any) -> Any:
                if event == "line":
                    add(frame.f_lineno)
                return local

            return local

        def trace(frame: Any, _event: str, _argument: Any) -> Any:
            filename = frame.f_code.co_filename
            if filename not in local_for:
                lines = set_for(filename)
                local_for[filename] = None if lines is None else make_local(lines)
            return local_for[filename]

        self._trace = trace
        if sys.gettrace() is not None:
            self.note = "another trace function was active at the start; it was replaced for line coverage"
        threading.settrace(trace)
        sys.settrace(trace)

    def renew(self) -> None:
        current = sys.gettrace()
        if current is self._trace:
            return
        if current is None:
            sys.settrace(self._trace)
            threading.settrace(self._trace)
        else:
            self.note = "the project installs its own trace function; line coverage is partial"

    def stop(self) -> None:
        if sys.gettrace() is self._trace:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]


def make_recorder(places: Places) -> LineRecorder:
    """The best recorder this interpreter has."""
    if hasattr(sys, "monitoring"):
        return MonitoringRecorder(places)
    return TracingRecorder(places)

"""What happened to the repository's source files while the tests were imported."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Set, Tuple

Key = Tuple[str, int, str]
"""File, first line and name of a code object."""

_LOADER = "<frozen importlib"
_STACK = 12


def key_of(code: Any) -> Key:
    return (code.co_filename, code.co_firstlineno, code.co_name)


class CallRecord:
    """Which functions of the repository ran, and which of its sources were read, from ``start`` to ``stop``.

    Attributes:
        ran: functions that ran; a module's own code counts as ``<module>``.
        read: real paths of sources that the project itself read as text (the import system does not count).
        before: real paths of sources that had been imported before ``start``.
        complete: false when something else took the profiler away, so that functions may have been missed.
    """

    def __init__(self, root: str) -> None:
        self._prefixes = tuple({each.rstrip(os.sep) + os.sep for each in (root, os.path.realpath(root))})
        self._tool = -1
        self._on = False
        self._callback: Any = None
        self.ran: Set[Key] = set()
        self.read: Set[str] = set()
        self.before: Set[str] = set()
        self.complete = True

    def start(self) -> None:
        for module in list(sys.modules.values()):
            filename = getattr(module, "__file__", None)
            if isinstance(filename, str) and os.path.realpath(filename).startswith(self._prefixes):
                self.before.add(os.path.realpath(filename))
        self._on = True
        add = getattr(sys, "addaudithook", None)
        if add is not None:
            add(self._on_audit)
        ran, is_ours = self.ran, self._is_ours
        if hasattr(sys, "monitoring"):
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            self._tool = next((n for n in (4, 3, 2, 5, 1, 0) if monitoring.get_tool(n) is None), -1)
            if self._tool >= 0:
                disable = monitoring.DISABLE

                def on_start(code: Any, _offset: int) -> Any:
                    if is_ours(code.co_filename):
                        ran.add(key_of(code))
                    return disable

                monitoring.use_tool_id(self._tool, "whimbrel-calls")
                monitoring.register_callback(self._tool, monitoring.events.PY_START, on_start)
                monitoring.set_events(self._tool, monitoring.events.PY_START)
                return

        def on_call(frame: Any, event: str, _argument: Any) -> None:
            if event == "call" and is_ours(frame.f_code.co_filename):
                ran.add(key_of(frame.f_code))

        self._callback = on_call
        threading.setprofile(on_call)
        sys.setprofile(on_call)

    def stop(self) -> None:
        self._on = False
        if self._tool >= 0:
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            self.complete = monitoring.get_tool(self._tool) == "whimbrel-calls" and bool(
                monitoring.get_events(self._tool) & monitoring.events.PY_START
            )
            if self.complete:
                monitoring.set_events(self._tool, 0)
                monitoring.free_tool_id(self._tool)
            return
        self.complete = sys.getprofile() is self._callback
        if self.complete:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def _is_ours(self, filename: str) -> bool:
        # Before 3.10 a relative entry of the path gives relative names.
        return filename.startswith(self._prefixes) or filename[:1] not in ("/", "<", "")

    def _on_audit(self, event: str, arguments: Any) -> None:
        if not self._on or event != "open":
            return
        path, mode, _flags = arguments
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or not path.endswith(".py") or (mode or "r")[:1] != "r":
            return
        if not _by_the_import_system():
            # The current directory is not asked for: it may be gone, and an audit hook must not raise.
            path = path if path.startswith("/") else self._prefixes[0] + path
            self.read.add(os.path.realpath(path))


def _by_the_import_system() -> bool:
    """Whether the file is opened to be imported, or only to show lines of it."""
    frame: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    names = []
    while frame is not None and len(names) < _STACK:
        names.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    if len(names) > 1 and names[0][0].startswith(_LOADER) and names[1][1] == "get_code":
        return True
    shows = any(filename.endswith("linecache.py") for filename, _name in names[:5])
    return shows and not any(filename.endswith("inspect.py") for filename, _name in names)

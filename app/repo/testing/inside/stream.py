"""One JSON object per line, written as things happen, so that a crash leaves a partial report.

Every event is a dictionary with a key ``e`` naming its kind; see ``events.py`` on
the host side for the readers. The file is opened anew for each event: tests close
descriptors, change directories and replace ``open``.
"""

from __future__ import annotations

import json
import linecache
import os
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

MESSAGE_LIMIT = 4000
"""Characters of an exception's message that are kept."""
FRAME_LIMIT = 120
"""Frames kept per exception chain; the middle of a deeper one (recursion) is dropped."""
OUTPUT_LIMIT = 16000
"""Characters of captured output kept per test, half from each end."""

_MACHINERY = (
    "/unittest/case.py",
    "/unittest/suite.py",
    "/unittest/loader.py",
    "/importlib/__init__.py",
    "/importlib/_bootstrap.py",
)
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class Stream:
    """Appends events to the report file; silent in forked children of the test process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._owner = os.getpid()
        # Bound here because tests replace these functions in the os and json modules.
        self._open: Callable[..., int] = os.open
        self._write: Callable[..., int] = os.write
        self._close: Callable[[int], None] = os.close
        self._pid: Callable[[], int] = os.getpid
        self._encode = json.JSONEncoder(ensure_ascii=True, default=repr).encode

    def emit(self, event: str, **values: Any) -> None:
        """Writes one event of the given kind."""
        if self._pid() != self._owner:
            return
        values["e"] = event
        data = memoryview(self._encode(values).encode("ascii") + b"\n")
        descriptor = self._open(self.path, _FLAGS, 0o600)
        try:
            while data:
                data = data[self._write(descriptor, data) :]
        finally:
            self._close(descriptor)


class Places:
    """Turns file names into repository-relative ones; remembers its answers.

    ``root`` is the repository inside the sandbox. Files in a virtual environment that
    lies within the repository do not count as the repository's.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._prefix = self.root.rstrip(os.sep) + os.sep
        self._own = os.path.dirname(os.path.realpath(__file__)) + os.sep
        self._known: Dict[str, Optional[str]] = {}

    def relative(self, filename: str) -> Optional[str]:
        """``pkg/mod.py`` for a file of the repository, else None."""
        if filename not in self._known:
            self._known[filename] = self._find(filename)
        return self._known[filename]

    def _find(self, filename: str) -> Optional[str]:
        if not filename or filename.startswith("<"):
            return None
        path = os.path.realpath(filename if os.path.isabs(filename) else os.path.join(self.root, filename))
        if not path.startswith(self._prefix) or path.startswith(self._own):
            return None
        relative = path[len(self._prefix) :].replace(os.sep, "/")
        parts = relative.split("/")
        if "site-packages" in parts or "dist-packages" in parts:
            return None
        return relative

    def is_ours(self, filename: str) -> bool:
        """Whether the file is one of these helpers."""
        return os.path.realpath(filename).startswith(self._own)


def clip(text: str, limit: int) -> str:
    """Head and tail of a long text with the true number of hidden characters between."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n[... %d characters not shown ...]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def _is_machinery(filename: str) -> bool:
    path = filename.replace("\\", "/")
    return (
        "/_pytest/" in path
        or "/pluggy/" in path
        or path.startswith("<frozen importlib")
        or path.endswith(_MACHINERY)
    )


def frames_of(traceback: Any, places: Places) -> List[List[Any]]:
    """``[path, line, function, code, in_repository]`` per frame, outermost first, machinery left out."""
    frames: List[List[Any]] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        filename = code.co_filename
        if not _is_machinery(filename) and not places.is_ours(filename):
            relative = places.relative(filename)
            text = linecache.getline(filename, traceback.tb_lineno, traceback.tb_frame.f_globals)
            frames.append(
                [
                    filename if relative is None else relative,
                    traceback.tb_lineno,
                    code.co_name,
                    text.strip()[:300],
                    relative is not None,
                ]
            )
        traceback = traceback.tb_next
    return frames


def line_in(error: BaseException, filename: str) -> int:
    """The line of a file, a test's, that an exception came through first; 0 for none."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == filename:
            return step.tb_lineno
        step = step.tb_next
    return 0


def _with_causes(error: BaseException, seen: Set[int], depth: int = 0) -> List[BaseException]:
    """The exception preceded by what it came from and, for groups, what it holds."""
    if id(error) in seen or depth > 30:
        return []
    seen.add(id(error))
    before: List[BaseException] = []
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
    if cause is not None:
        before.extend(_with_causes(cause, seen, depth + 1))
    held: Any = getattr(error, "exceptions", None)
    if isinstance(held, tuple):
        members: Tuple[Any, ...] = held
        for member in members[:20]:
            if isinstance(member, BaseException):
                before.extend(_with_causes(member, seen, depth + 1))
    return [*before, error]


def message_of(error: BaseException) -> str:
    """``str(error)``, whatever its class does."""
    try:
        return clip(str(error), MESSAGE_LIMIT)
    except Exception as problem:  # noqa: BLE001  the project's own __str__ may raise anything
        return "(its message cannot be shown: %s)" % type(problem).__name__


def describe(error: BaseException, places: Places) -> Dict[str, Any]:
    """``exception``, ``message`` and ``frames`` (causes first, the place it was raised last)."""
    frames: List[List[Any]] = []
    for one in _with_causes(error, set()):
        frames.extend(frames_of(one.__traceback__, places))
        if isinstance(one, SyntaxError) and one.filename and one.lineno:
            relative = places.relative(one.filename)
            shown = one.filename if relative is None else relative
            frames.append(
                [shown, one.lineno, "<module>", (one.text or "").strip()[:300], relative is not None]
            )
    if len(frames) > FRAME_LIMIT:
        frames = frames[: FRAME_LIMIT // 3] + frames[-(FRAME_LIMIT - FRAME_LIMIT // 3) :]
    kind = type(error)
    name = kind.__name__ if kind.__module__ in ("builtins", "__main__") else kind.__qualname__
    return {"exception": name, "message": message_of(error), "frames": frames}

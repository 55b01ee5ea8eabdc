"""What a test does outside of its own process, seen through audit events.

Kinds: ``starts`` (another program, which would see the files on disk and not an edit made in
memory), ``reads`` (the edited file itself, likewise), ``changes`` (a file of the repository),
``writes`` (another file that is not this process's own), ``binds`` (a port or socket path). Tests of
the last three kinds disturb each other when two candidates run at the same time.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, FrozenSet, List, Optional, Set

_STARTS = frozenset(
    ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.startfile", "pty.spawn")
)
_CHANGES = frozenset(
    "os." + name
    for name in (
        "chmod",
        "chown",
        "link",
        "mkdir",
        "remove",
        "rename",
        "rmdir",
        "symlink",
        "truncate",
        "utime",
    )
) | {"sqlite3.connect"}
_REACHES = (
    frozenset("os." + name for name in ("chdir", "fork", "forkpty", "kill", "killpg", "lchown", "setxattr"))
    | frozenset("socket." + name for name in ("bind", "connect", "sendmsg", "sendto"))
    | frozenset("shutil." + name for name in ("copyfile", "move", "rmtree"))
    | frozenset(("signal.pthread_kill", "_thread.start_new_thread", "syslog.syslog", "webbrowser.open"))
)
"""Only of interest while repeated calls are kept inside."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_NOWHERE = ("/dev/", "/proc/")


class Watch:
    """Collects kinds between two calls of ``take``; for a process that ends soon (hooks stay for good).

    Tests replace functions of ``os``: the hook uses none of those, and never raises of its own.

    Args:
        root: the repository.
        scratch: a directory whose files are this process's own.
        edited: real paths of files that read otherwise in this process than on disk.
        first_seen: called when a kind is seen that was not seen since ``take``.
    """

    def __init__(
        self,
        root: str,
        scratch: str,
        edited: FrozenSet[str] = frozenset(),
        first_seen: Optional[Callable[[str], None]] = None,
    ) -> None:
        self._own = (os.path.realpath(scratch).rstrip("/") + "/", scratch.rstrip("/") + "/")
        self._root = (os.path.realpath(root).rstrip("/") + "/", root.rstrip("/") + "/")
        self._edited = edited
        self._names = frozenset(path.rpartition("/")[2] for path in edited)
        self._first_seen = first_seen
        self._decode = os.fsdecode
        self._real = os.path.realpath
        self._kinds: Set[str] = set()
        self._busy = False
        self.forbid: Optional[Callable[[], BaseException]] = None
        """While set, whatever reaches out of the process raises what this makes, and does not happen."""

    def start(self) -> None:
        add = getattr(sys, "addaudithook", None)
        if add is not None:
            add(self._hook)
        self._see_forked_programs()

    def take(self) -> List[str]:
        taken = sorted(self._kinds)
        self._kinds.clear()
        return taken

    def _see_forked_programs(self) -> None:
        """``multiprocessing`` starts its programs below the level that has events."""
        try:
            import _posixsubprocess
        except ImportError:
            return
        module: Any = _posixsubprocess
        original = module.fork_exec

        def fork_exec(*arguments: Any) -> Any:
            self._hook("subprocess.Popen", ())
            return original(*arguments)

        module.fork_exec = fork_exec

    def _note(self, kind: str) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            if self._first_seen is not None:
                self._first_seen(kind)

    def _hook(self, event: str, arguments: Any) -> None:
        if event == "open":
            path, mode, flags = arguments
            if (isinstance(mode, str) and ("w" in mode or "a" in mode or "x" in mode or "+" in mode)) or (
                mode is None and isinstance(flags, int) and flags & _WRITING
            ):
                self._changed(path)
            elif self._edited and isinstance(path, (str, bytes)):
                self._read(path)
        elif event in _STARTS:
            self._reach()
            self._note("starts")
        elif event in _CHANGES:
            for path in arguments[:2]:
                self._changed(path)
        elif event in _REACHES:
            self._reach()
            if event == "socket.bind":
                self._note("binds")

    def _read(self, path: Any) -> None:
        text = path if isinstance(path, str) else self._decode(path)
        if self._busy or text.rpartition("/")[2] not in self._names:
            return
        self._busy = True
        try:
            if self._real(text) in self._edited:
                self._note("reads")
        except Exception:  # noqa: BLE001  a current directory that is gone, a function that a test replaced
            self._note("reads")
        finally:
            self._busy = False

    def _changed(self, path: Any) -> None:
        if not isinstance(path, (str, bytes)):
            return
        text = path if isinstance(path, str) else self._decode(path)
        if text == ":memory:" or text.startswith(_NOWHERE):
            return
        self._reach()
        # A relative path counts as one of the repository, unless the test went to its own directory.
        if not text.startswith("/"):
            try:
                text = _cwd() + "/" + text
            except OSError:
                return
        if "/../" in text or text.startswith(self._root):
            self._note("changes")
        elif not (text + "/").startswith(self._own):
            self._note("writes")

    def _reach(self) -> None:
        if self.forbid is not None:
            raise self.forbid()


_cwd = os.getcwd

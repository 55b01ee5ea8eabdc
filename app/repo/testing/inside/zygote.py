"""A fork server: imports the framework and installed packages once, runs each request in a forked child.

Started as ``python zygote.py CONFIG.json`` with a duplex byte stream on stdin and
stdout. Messages both ways are a length (4 bytes, big endian) and that many bytes of
JSON. The first message is ours::

    {"hello": true, "threads": 1, "failed": [names], "project_modules": [names]}

then each request ``{"request": {...see launch.run_request}, "limits": {"wall_s",
"cpu_s", "memory_bytes"}}`` is answered by ``{"report": text, "stack": text, "log":
text, "exit_code": n, "timed_out": bool, "duration_s": s}``. End of input ends the server.

The project's own modules are never imported here, only in the children.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import struct
import sys
import threading
import time
import traceback
from typing import Any, Dict, List, Optional

LOG_TAIL = 16000


class Wire:
    """Length-prefixed JSON on two descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target

    def receive(self) -> Optional[Dict[str, Any]]:
        """The next message, or None at the end of the stream."""
        head = self._exactly(4)
        if head is None:
            return None
        body = self._exactly(struct.unpack(">I", head)[0])
        return None if body is None else json.loads(body.decode("utf-8"))

    def send(self, message: Dict[str, Any]) -> None:
        body = json.dumps(message).encode("ascii")
        data = memoryview(struct.pack(">I", len(body)) + body)
        while data:
            data = data[os.write(self.target, data) :]

    def _exactly(self, count: int) -> Optional[bytes]:
        parts: List[bytes] = []
        while count:
            part = os.read(self.source, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        os.close(self.source)
        os.close(self.target)


def preload(names: List[str], places: Any) -> List[str]:
    """Imports what can be imported without the repository on the path; returns what failed."""
    whole_path = list(sys.path)
    sys.path[:] = [entry for entry in whole_path if _outside(entry, places.root)]
    failed: List[str] = []
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001  an installed package may raise anything when imported early
            failed.append(name)
    sys.path[:] = whole_path
    return failed


def _outside(entry: str, root: str) -> bool:
    path = os.path.realpath(entry or ".")
    inside = path == root or path.startswith(root.rstrip(os.sep) + os.sep)
    return not inside or "site-packages" in path or "dist-packages" in path


def thread_count() -> int:
    """Threads of this process, those of C libraries included where the system tells."""
    try:
        return max(threading.active_count(), len(os.listdir("/proc/self/task")))
    except OSError:
        # No /proc (macOS): Python's own threads are what can be counted.
        return threading.active_count()


def _die_with_parent() -> None:
    # Elsewhere than on Linux the sandbox's own clean-up has to find the child.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def _limit(kind: int, value: int) -> None:
    _soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, hard))


def child(message: Dict[str, Any], wire: Wire, log_path: str, launch: Any, codes: Any) -> None:
    """The forked process: limits, own session, no access to the stream; never returns."""
    code = 70
    try:
        os.setsid()
        _die_with_parent()
        wire.close()
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        limits = message["limits"]
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, max(1, int(limits["cpu_s"])))
        if limits["memory_bytes"]:
            _limit(resource.RLIMIT_AS, int(limits["memory_bytes"]))
        # Directory listings from before the fork may be older than the last edit.
        importlib.invalidate_caches()
        request = message["request"]
        code = launch.run_request(request)
        codes.tell(request["report"] + ".loaded", request["root"])
    except BaseException:  # noqa: BLE001  whatever it was must reach the log, not the server's loop
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def await_child(pid: int, wall_s: float) -> Dict[str, Any]:
    """Waits for the child or the limit; its whole process group is gone afterwards."""
    start = time.monotonic()
    pause = 0.0005
    timed_out = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - start > wall_s:
            timed_out = True
            _kill_group(pid)
            done, status = os.waitpid(pid, 0)
            break
        time.sleep(pause)
        pause = min(pause * 1.3, 0.005)
    _kill_group(pid)
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if code == 128 + signal.SIGXCPU:
        timed_out = True
    return {"exit_code": code, "timed_out": timed_out, "duration_s": time.monotonic() - start}


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            # Already gone, or the child had not yet made its own group.
            continue


def _read(path: str, tail: int = 0) -> str:
    try:
        with open(path, "rb") as file:
            if tail:
                file.seek(max(0, os.path.getsize(path) - tail))
            return file.read().decode("utf-8", "replace")
    except OSError:
        # The child ended before it wrote anything.
        return ""


def serve(wire: Wire, launch: Any, codes: Any) -> None:
    """Answers requests until the stream ends."""
    cache = codes.CodeCache()
    cache.install()
    while True:
        message = wire.receive()
        if message is None:
            return
        request = message["request"]
        report = request["report"]
        os.makedirs(request["scratch"], exist_ok=True)
        log_path = report + ".log"
        pid = os.fork()
        if pid == 0:
            child(message, wire, log_path, launch, codes)
        answer = await_child(pid, float(message["limits"]["wall_s"]))
        answer["report"] = _read(report)
        answer["stack"] = _read(report + ".stack")
        answer["log"] = _read(log_path, LOG_TAIL)
        loaded = codes.told(report + ".loaded")
        for path in (report, report + ".stack", report + ".loaded", log_path):
            if os.path.exists(path):
                os.remove(path)
        shutil.rmtree(request["scratch"], ignore_errors=True)
        wire.send(answer)
        # After the answer: the other side has work to do meanwhile.
        cache.learn(loaded)


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        config: Dict[str, Any] = json.loads(file.read().decode("utf-8"))
    # The stream moves out of the way: nothing that imports or prints may touch it.
    wire = Wire(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    os.chdir(config["root"])
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path.insert(0, own)
    launch: Any = importlib.import_module("launch")
    sys.modules.pop("launch")
    launch.prepare_interpreter(config["root"])
    package = launch.load_package()
    stream: Any = importlib.import_module(package.__name__ + ".stream")
    origin: Any = importlib.import_module(package.__name__ + ".origin")
    for name in ("limits", "lines", "session", "options", "%s_runs" % config["framework"]):
        importlib.import_module("%s.%s" % (package.__name__, name))
    codes: Any = importlib.import_module(package.__name__ + ".codes")
    places = stream.Places(config["root"])
    failed = preload([config["framework"], *config["preload"]], places)
    project = origin.repository_modules(places)
    gc.collect()
    gc.freeze()
    wire.send({"hello": True, "threads": thread_count(), "failed": failed, "project_modules": project})
    serve(wire, launch, codes)


if __name__ == "__main__":
    main()

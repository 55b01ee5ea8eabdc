"""A fork server: imports the framework and installed packages once, runs each request in a forked child.

Started as ``python zygote.py CONFIG.json`` with a duplex byte stream on stdin and
stdout. Messages both ways are a length (4 bytes, big endian) and that many bytes of
JSON. The first message is ours::

    {"hello": true, "threads": 1, "failed": [names], "project_modules": [names]}

then each request ``{"request": {...see launch.run_request}, "limits": {"wall_s",
"cpu_s", "memory_bytes"}, "overlay": {path: [[start, end, text], ...]}}`` (see
overlay.py) is answered by ``{"report": text, "stack": text, "log":
text, "exit_code": n, "timed_out": bool, "duration_s": s, "kinds": [what it did outside of its process
when it had an overlay, see watching.py]}``. End of input ends the server.

The project's own modules are never imported here, only in the children.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from typing import Any, Dict, List

LOG_TAIL = 16000


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


class Parts:
    """Our own modules, which only exist once the package is loaded."""

    def __init__(self, launch: Any, codes: Any, overlay: Any, processes: Any, watching: Any) -> None:
        self.watching = watching
        self.launch = launch
        self.codes = codes
        self.overlay = overlay
        self.processes = processes


def child(message: Dict[str, Any], wire: Any, log_path: str, parts: Parts) -> None:
    """The forked process: limits, own session, no access to the stream; never returns."""
    code = 70
    try:
        wire.close()
        limits = message["limits"]
        parts.processes.begin_child(log_path, limits["cpu_s"], limits["memory_bytes"])
        # Directory listings from before the fork may be older than the last edit.
        importlib.invalidate_caches()
        request = message["request"]
        if message.get("overlay"):
            parts.overlay.install(request["root"], message["overlay"])
            _watch(request, message["overlay"], parts.watching)
        code = parts.launch.run_request(request)
        parts.codes.tell(request["report"] + ".loaded", request["root"])
    except BaseException:  # noqa: BLE001  whatever it was must reach the log, not the server's loop
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _watch(request: Dict[str, Any], overlay: Dict[str, Any], watching: Any) -> None:
    """Writes the kinds of things that the run does outside of its process to a file."""
    path = request["report"] + ".kinds"
    opened, write, close = os.open, os.write, os.close

    def first_seen(kind: str) -> None:
        descriptor = opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        write(descriptor, kind.encode("ascii") + b"\n")
        close(descriptor)

    edited = frozenset(os.path.realpath(os.path.join(request["root"], each)) for each in overlay)
    own = os.path.dirname(request["report"])
    watching.Watch(request["root"], own, edited, first_seen).start()


def await_child(pid: int, wall_s: float, processes: Any) -> Dict[str, Any]:
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
            processes.kill_group(pid)
            done, status = os.waitpid(pid, 0)
            break
        time.sleep(pause)
        pause = min(pause * 1.3, 0.005)
    processes.kill_group(pid)
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if code == 128 + signal.SIGXCPU:
        timed_out = True
    return {"exit_code": code, "timed_out": timed_out, "duration_s": time.monotonic() - start}


def _read(path: str, tail: int = 0) -> str:
    try:
        with open(path, "rb") as file:
            if tail:
                file.seek(max(0, os.path.getsize(path) - tail))
            return file.read().decode("utf-8", "replace")
    except OSError:
        # The child ended before it wrote anything.
        return ""


def serve(wire: Any, parts: Parts) -> None:
    """Answers requests until the stream ends."""
    cache = parts.codes.CodeCache()
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
            child(message, wire, log_path, parts)
        answer = await_child(pid, float(message["limits"]["wall_s"]), parts.processes)
        answer["report"] = _read(report)
        answer["stack"] = _read(report + ".stack")
        answer["log"] = _read(log_path, LOG_TAIL)
        answer["kinds"] = _read(report + ".kinds").split()
        loaded = parts.codes.told(report + ".loaded")
        for path in (report, report + ".stack", report + ".loaded", report + ".kinds", log_path):
            if os.path.exists(path):
                os.remove(path)
        shutil.rmtree(request["scratch"], ignore_errors=True)
        wire.send(answer)
        # After the answer: the other side has work to do meanwhile.
        cache.learn(loaded)


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        config: Dict[str, Any] = json.loads(file.read().decode("utf-8"))
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path.insert(0, own)
    launch: Any = importlib.import_module("launch")
    sys.modules.pop("launch")
    package = launch.load_package()
    processes: Any = importlib.import_module(package.__name__ + ".processes")
    wire = processes.take_stream()
    os.chdir(config["root"])
    launch.prepare_interpreter(config["root"])
    stream: Any = importlib.import_module(package.__name__ + ".stream")
    origin: Any = importlib.import_module(package.__name__ + ".origin")
    for name in ("limits", "lines", "session", "options", "%s_runs" % config["framework"]):
        importlib.import_module("%s.%s" % (package.__name__, name))
    codes: Any = importlib.import_module(package.__name__ + ".codes")
    overlay: Any = importlib.import_module(package.__name__ + ".overlay")
    watching: Any = importlib.import_module(package.__name__ + ".watching")
    places = stream.Places(config["root"])
    failed = preload([config["framework"], *config["preload"]], places)
    project = origin.repository_modules(places)
    gc.collect()
    gc.freeze()
    wire.send(
        {"hello": True, "threads": processes.thread_count(), "failed": failed, "project_modules": project}
    )
    serve(wire, Parts(launch, codes, overlay, processes, watching))


if __name__ == "__main__":
    main()

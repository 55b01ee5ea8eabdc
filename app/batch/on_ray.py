"""The same pool on a Ray cluster: each issue runs whole on one node.

A node needs whimbrel installed and the repository at the same path (a shared file system, or
a copy). Results travel back; nothing else is shared.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError
from .local import Ended
from .tasks import Task

_CONNECT_S = 5.0


class RayPool:
    """Runs tasks on the cluster at ``address`` (``auto``: the one this machine belongs to).

    Args:
        jobs: tasks at a time; None: as many as the cluster has processors.

    Raises:
        ConfigError: ray is not installed, or no cluster answers there.
    """

    def __init__(self, folder: Path, arguments: Sequence[str], jobs: int | None, address: str) -> None:
        self._folder, self._arguments = folder, list(arguments)
        self.running: dict[str, None] = {}
        self._ray = _connected(address)
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self._jobs = max(1, cpus if jobs is None else jobs)

    def run(self, tasks: Sequence[Task]) -> Iterator[Ended | None]:
        """As ``Pool.run``; a task whose node died is tried once more on another."""
        ray: Any = self._ray
        remote = ray.remote(num_cpus=1, max_retries=1, retry_exceptions=False)(_on_node)
        waiting: dict[Any, Task] = {}
        left = list(reversed(tasks))
        try:
            while left or waiting:
                while left and len(waiting) < self._jobs:
                    task = left.pop()
                    self.running[task.id] = None
                    arguments = [*self._arguments, *task.arguments()]
                    waiting[remote.options(name=f"whimbrel {task.id}").remote(arguments, task.issue)] = task
                done, _ = ray.wait(list(waiting), num_returns=1, timeout=0.5)
                for reference in done:
                    task = waiting.pop(reference)
                    self.running.pop(task.id, None)
                    yield self._ended(task, reference)
                if not done:
                    yield None
        finally:
            for reference in waiting:
                ray.cancel(reference, force=False)
            if waiting:
                # Each has its time to clean up before the connection goes.
                ray.wait(list(waiting), num_returns=len(waiting), timeout=25)
            ray.shutdown()

    def _ended(self, task: Task, reference: Any) -> Ended:
        try:
            result, files, node = self._ray.get(reference)
        except Exception as error:  # noqa: BLE001 - whatever the cluster did to a task is that task's result
            text = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            message = f"the cluster lost this run: {text[:300]}"
            return Ended(task, {"status": "internal_error", "exit_code": 1, "message": message})
        folder = self._folder / "runs" / task.folder
        for name, data in files.items():
            # Names were made by our own code on the node; a path out of the folder is still refused.
            target = folder / name
            if ".." not in target.parts:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        return Ended(task, result, node)


def _on_node(arguments: list[str], issue: str) -> tuple[dict[str, Any], dict[str, bytes], str]:
    """Runs on a node; returns the result, its files (logs of single commands left out), the node's name."""
    import tempfile
    from pathlib import Path

    from .one import run_one

    with tempfile.TemporaryDirectory(prefix="whimbrel-batch-") as folder:
        output = Path(folder) / "run"
        result = run_one(arguments, issue, output)
        files = {
            path.relative_to(output).as_posix(): path.read_bytes()
            for path in sorted(output.rglob("*"))
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= 8 << 20
        }
    import ray

    node: str = ray.get_runtime_context().get_node_id()[:12]
    return result, files, f"{socket.gethostname()}/{node}"


def _connected(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--ray needs the ray package", hint="pip install 'whimbrel[ray]'") from error
    if address != "auto":
        host, _, port = address.removeprefix("ray://").rpartition(":")
        try:
            # Ray itself would try for minutes and then end the process.
            socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"no Ray cluster answers at {address}: {error}", hint="give HOST:PORT of its head, or auto"
            ) from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"no Ray cluster answers at {address}: {text}", hint="start one with `ray start --head`"
        ) from error
    return ray

"""Real model servers on loopback, started and ended by the tests that need them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType


@dataclass
class RealServer:
    """``with RealServer(argv, log) as server: ... server.url``; ``{port}`` in argv becomes a free port."""

    argv: Sequence[str]
    log: Path
    patience_s: float = 60.0
    environ: dict[str, str] | None = None

    def __enter__(self) -> RealServer:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        argv = [word.format(port=self.port) if word == "{port}" else word for word in self.argv]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                env={**os.environ, **(self.environ or {})},
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _wait(self) -> None:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/models", timeout=5) as answer:
                    answer.read()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                ended = self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    tail = self.log.read_text(encoding="utf-8", errors="replace")[-3000:]
                    raise RuntimeError(
                        f"the server {'ended' if ended else 'did not start'}:\n{tail}"
                    ) from None
                time.sleep(0.05)

    def _end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(10)
                return
            except subprocess.TimeoutExpired:
                continue

"""A process that holds a part of a model and does what the first process says, until that one is gone.

Every process does the same to its own sequences: they have the same numbers, lengths and pages everywhere.
A message is ``(operation, arguments...)``; there is no answer, except for loading: ``("ready", warnings)``
or ``("failed", error)``. A process that fails in a step says why and ends, which ends the group.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ....sandbox.base.errors import WhimbrelError
from ..load import LoadOptions, Part, load_runner
from ..protocol import Chunk
from ..runner import KimiRunner
from .layout import Layout
from .mesh import Mesh, MeshBroken
from .share import Share


@dataclass(frozen=True)
class Orders:
    """What a process is started with."""

    folder: Path
    options: LoadOptions
    layout: Layout
    rank: int
    pages: int


def main(arguments: Sequence[str]) -> int:
    """``CONTROL LINK...``: open sockets by their numbers, the link to oneself as ``-``."""
    control, *links = arguments
    work(Connection(int(control)), [None if link == "-" else Connection(int(link)) for link in links])
    return 0


def work(control: Connection, links: Sequence[Connection | None]) -> None:
    """The whole life of such a process; its orders are the first message."""
    orders: Orders = control.recv()
    mesh = Mesh(orders.rank, links)
    try:
        part = Part(orders.layout, orders.rank, Share(orders.layout, mesh), orders.pages)
        runner = load_runner(orders.folder, orders.options, part)
    except WhimbrelError as error:
        _say(control, ("failed", error.one_line()))
        return
    _say(control, ("ready", list(runner.warnings)))
    held = Holder(runner, mesh)
    try:
        while held.obey(control.recv()):
            pass
    except (EOFError, OSError, MeshBroken):
        pass  # the first process, or another one, is gone: so is the model
    except WhimbrelError as error:
        _say(control, ("failed", error.one_line()))
    except Exception as error:  # noqa: BLE001 - whatever it is, the first process must learn of it
        _say(control, ("failed", f"{type(error).__name__}: {error}"))
    finally:
        runner.close()
        mesh.close()


class Holder:
    """Sequences and snapshots of one process, by their numbers."""

    def __init__(self, runner: KimiRunner, mesh: Mesh) -> None:
        self._runner, self._mesh = runner, mesh
        self._held: dict[int, Any] = {}

    def obey(self, message: tuple[Any, ...]) -> bool:
        """Does what a message says; False when it was the last one."""
        operation, *given = message
        if operation == "end":
            return False
        getattr(self, f"_{operation}")(*given)
        return True

    def _new(self, number: int) -> None:
        self._held[number] = self._runner.new()

    def _restore(self, snapshot: int, number: int) -> None:
        self._held[number] = self._runner.restore(self._held[snapshot])

    def _fork(self, source: int, number: int) -> None:
        self._held[number] = self._held[source].fork()

    def _snapshot(self, source: int, number: int) -> None:
        self._held[number] = self._held[source].snapshot()

    def _rewind(self, number: int, snapshot: int) -> None:
        self._held[number].rewind(self._held[snapshot])

    def _close(self, number: int) -> None:
        self._held.pop(number).close()

    def _forward(self, chunks: list[tuple[int, Any, Any, Any]]) -> None:
        made = [
            Chunk(self._held[number], tokens, want, embeddings) for number, tokens, want, embeddings in chunks
        ]
        results = self._runner.run(made, self._runner.prepare(made))
        group = self._runner.model.group
        if group.last and not group.first and group.rank == 0:
            for result in results:
                if result is not None:
                    self._mesh.send(0, result)


def _say(control: Connection, message: tuple[Any, ...]) -> None:
    with contextlib.suppress(OSError):
        control.send(message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

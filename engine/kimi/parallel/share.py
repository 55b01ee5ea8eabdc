"""The group of a process that runs a part of a model, over a mesh of connections."""

from __future__ import annotations

from collections.abc import Sequence

from ..safetensors import Array
from .layout import Layout
from .mesh import Mesh


class Share:
    """See `engine.kimi.group.Group`; `mesh` holds all processes, those of other stages among them."""

    def __init__(self, layout: Layout, mesh: Mesh) -> None:
        self._mesh = mesh
        self._peers = mesh.part(layout.peers(mesh.rank))
        self.rank, self.size = self._peers.rank, self._peers.size
        self._before, self._after = mesh.rank - layout.tensor, mesh.rank + layout.tensor
        self.first, self.last = self._before < 0, self._after >= mesh.size

    def total(self, part: Array) -> Array:
        return self._peers.total(part)

    def gather(self, part: Array) -> list[Array]:
        return self._peers.gather(part)

    def exchange(self, outgoing: Sequence[Array]) -> list[Array]:
        return self._peers.exchange(outgoing)

    def take_rows(self) -> Array:
        return self._mesh.receive(self._before)

    def pass_rows(self, rows: Array) -> None:
        self._mesh.send(self._after, rows)

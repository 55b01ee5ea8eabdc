"""Processes that talk to each other pairwise over private sockets, and what they do together.

Every process calls the same operations in the same order. Sums are taken in rank order on every process,
so that all hold the same bits. Pairs exchange one after another in one fixed order, which cannot deadlock
however large the arrays are.
"""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any

import numpy as np

from ....sandbox.base.errors import ModelError
from ..safetensors import Array


class MeshBroken(ModelError):
    """Another process of the group is gone; the group cannot go on."""


class Mesh:
    """The view of one process on its group.

    Args:
        rank: this process, 0..size-1 within the group.
        links: the connection to each other rank (None for itself).
    """

    def __init__(self, rank: int, links: Sequence[Connection | None]) -> None:
        self.rank, self.size = rank, len(links)
        self._links = list(links)

    def exchange(self, outgoing: Sequence[Array]) -> list[Array]:
        """Gives ``outgoing[r]`` to rank r and returns what every rank gave to this one, in rank order.

        Raises:
            MeshBroken: a process is gone.
        """
        received: list[Array] = [outgoing[self.rank]] * self.size
        for low in range(self.size):
            for high in range(low + 1, self.size):
                if low == self.rank:
                    self.send(high, outgoing[high])
                    received[high] = self.receive(high)
                elif high == self.rank:
                    received[low] = self.receive(low)
                    self.send(low, outgoing[low])
        return received

    def gather(self, part: Array) -> list[Array]:
        """The parts of all ranks, in rank order, on every rank."""
        return self.exchange([part] * self.size)

    def total(self, part: Array) -> Array:
        """The sum over all ranks of arrays of one shape; the same bits everywhere."""
        if self.size == 1:
            return part
        first, *others = self.gather(part)
        result = first.copy()
        for other in others:
            result += other
        return result

    def send(self, rank: int, array: Array) -> None:
        """One array to one rank, which must call `receive`."""
        array = np.ascontiguousarray(array)
        link = self._link(rank)
        try:
            link.send((array.dtype.str, array.shape))
            if array.nbytes:
                link.send_bytes(array.reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise self._broken(rank) from error

    def receive(self, rank: int) -> Array:
        """The next array of one rank."""
        link = self._link(rank)
        try:
            dtype, shape = link.recv()
            array = np.empty(shape, np.dtype(dtype))
            if array.nbytes:
                link.recv_bytes_into(array.reshape(-1).view(np.uint8).data)
        except (OSError, EOFError) as error:
            raise self._broken(rank) from error
        return array

    def tell(self, rank: int, message: Any) -> None:
        """A message that is no array, between processes of ours."""
        try:
            self._link(rank).send(message)
        except OSError as error:
            raise self._broken(rank) from error

    def hear(self, rank: int) -> Any:
        """The next message of one rank."""
        try:
            return self._link(rank).recv()
        except (OSError, EOFError) as error:
            raise self._broken(rank) from error

    def part(self, ranks: Sequence[int]) -> Mesh:
        """The same process within a smaller group that holds it; shares the connections."""
        return Mesh(ranks.index(self.rank), [self._links[rank] for rank in ranks])

    def close(self) -> None:
        """Closes this process's ends; the others see it as gone."""
        for link in self._links:
            if link is not None:
                link.close()

    def _link(self, rank: int) -> Connection:
        link = self._links[rank]
        assert link is not None
        return link

    def _broken(self, rank: int) -> MeshBroken:
        return MeshBroken(f"process {rank} of {self.size} of the model is gone", hint="load the model again")


def connections(size: int) -> list[list[Connection | None]]:
    """A row of links for each of `size` processes; row r goes to the process of rank r."""
    rows: list[list[Connection | None]] = [[None] * size for _ in range(size)]
    for low in range(size):
        for high in range(low + 1, size):
            rows[low][high], rows[high][low] = Pipe()
    return rows

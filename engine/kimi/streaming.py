"""Experts from disk through a cache of a fixed size, read ahead by threads."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from ...kernels.moe import Expert
from ...sandbox.base.errors import ConfigError
from .experts import ExpertStats, ExpertTable

Key = tuple[int, int]
READERS = 2
"""Threads that read ahead: an NVMe disk wants more than one request at a time."""


class StreamedExperts:
    """A least-recently-used cache of at most `capacity` bytes.

    At most half of it is filled with experts that nobody has used yet, so that reading ahead never throws
    out what it has just brought in.

    Raises:
        ConfigError: the cache cannot hold two experts, one in use and one on its way.
    """

    def __init__(self, table: ExpertTable, capacity: int) -> None:
        if capacity < 2 * table.largest:
            raise ConfigError(
                f"the expert cache has {capacity} bytes and one expert takes {table.largest}",
                hint=f"give it at least {2 * table.largest}",
            )
        self.table, self.capacity = table, capacity
        self.stats = ExpertStats()
        self.at_once: int | None = max(1, capacity // max(1, 2 * table.largest))
        self._change = threading.Condition()
        self._held: OrderedDict[Key, tuple[Expert, int]] = OrderedDict()
        self._bytes = 0
        self._wanted: deque[Key] = deque()
        self._reading: set[Key] = set()
        self._ahead: dict[Key, int] = {}
        """Read ahead or being so, and not asked for yet, with their bytes."""
        self._failed: dict[Key, BaseException] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False

    def announce(self, layer: int, ids: list[int]) -> None:
        with self._change:
            self._ahead = {key: n for key, n in self._ahead.items() if key in self._reading}
            self._failed.clear()
            self._wanted = deque((layer, e) for e in ids if (layer, e) not in self._held)
            while len(self._threads) < READERS and not self._closed:
                thread = threading.Thread(target=self._read_ahead, name="expert-reader", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._change.notify_all()

    def get(self, layer: int, expert: int) -> Expert:
        key = (layer, expert)
        with self._change:
            came_ahead = key in self._ahead
            while key in self._reading:
                self._change.wait()
                came_ahead = True
            if (error := self._failed.pop(key, None)) is not None:
                raise error
            self._ahead.pop(key, None)
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                if came_ahead:
                    self.stats.misses += 1
                    self.stats.ahead += 1
                else:
                    self.stats.hits += 1
                self._change.notify_all()
                return found[0]
            if key in self._wanted:
                self._wanted.remove(key)
            self.stats.misses += 1
            self._reading.add(key)
        try:
            made = self.table.read(layer, expert)
        finally:
            with self._change:
                self._reading.discard(key)
                self._change.notify_all()
        with self._change:
            self._keep(key, made)
        return made

    def close(self) -> None:
        """Stop the threads and forget everything."""
        with self._change:
            self._closed = True
            self._wanted.clear()
            self._change.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._held.clear()
        self._bytes = 0

    def _keep(self, key: Key, expert: Expert) -> None:
        size = self.table.stored[key[0]][key[1]].nbytes
        self.stats.bytes_read += size
        if key in self._held:
            return
        while self._held and self._bytes + size > self.capacity:
            oldest = next((k for k in self._held if k not in self._ahead), next(iter(self._held)))
            self._bytes -= self._held.pop(oldest)[1]
        self._held[key] = (expert, size)
        self._bytes += size

    def _next(self) -> Key | None:
        """The next expert to read ahead, or None where there is none or no room."""
        while self._wanted:
            key = self._wanted[0]
            if key in self._held or key in self._reading:
                self._wanted.popleft()
                continue
            size = self.table.stored[key[0]][key[1]].nbytes
            if self._ahead and sum(self._ahead.values()) + size > self.capacity // 2:
                return None
            self._wanted.popleft()
            self._ahead[key] = size
            self._reading.add(key)
            return key
        return None

    def _read_ahead(self) -> None:
        while True:
            with self._change:
                key = self._next()
                while key is None and not self._closed:
                    self._change.wait()
                    key = self._next()
                if self._closed or key is None:
                    return
            failure: BaseException | None = None
            made: Expert | None = None
            try:
                made = self.table.read(*key)
            except BaseException as error:  # noqa: BLE001 - whoever asks for this expert gets it
                failure = error
            with self._change:
                self._reading.discard(key)
                if made is not None:
                    self._keep(key, made)
                else:
                    self._ahead.pop(key, None)
                    if failure is not None:
                        self._failed[key] = failure
                self._change.notify_all()

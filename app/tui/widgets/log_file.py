"""A log of any size as numbered lines: an index with one offset for every few lines, and bytes on demand."""

from __future__ import annotations

import os
import tempfile
from array import array
from pathlib import Path

__all__ = ["LogFile"]

EVERY = 64
"""Lines between two known offsets."""
LONGEST = 8000
"""Bytes of a line that are read; the rest is counted."""
STEP = 1 << 20
"""Bytes searched in one go."""
INDEXED_AT_ONCE = 1 << 18
"""About a millisecond: the interpreter is held no longer."""


class LogFile:
    """Reads a file that may still grow, or keeps what is appended in an unnamed temporary one.

    ``index_more`` is called until it returns False; nothing else reads more than what is asked for.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as the log
        else:
            self._file = path.open("rb", buffering=0)
        self._offsets = array("Q", [0])
        self._whole = 0
        """Complete lines that were indexed."""
        self._indexed = 0
        """Bytes that were indexed."""
        self._appended = 0

    def close(self) -> None:
        self._file.close()

    @property
    def indexed_bytes(self) -> int:
        return self._indexed

    @property
    def index_size(self) -> int:
        """Bytes the index takes."""
        return len(self._offsets) * self._offsets.itemsize

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    @property
    def lines(self) -> int:
        """Lines that are known, one that has no end yet included."""
        return self._whole + (self._ends_open() if self._indexed else 0)

    def append(self, data: bytes) -> None:
        """More of a log that is not a file. Raises OSError when the disk is full."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file.fileno(), view, self._appended)
            self._appended += written
            view = view[written:]

    def index_more(self) -> bool:
        """Indexes one step; False when everything there is has been indexed."""
        data = os.pread(self._file.fileno(), INDEXED_AT_ONCE, self._indexed)
        if not data:
            if self.size < self._indexed:
                # Cut short or begun anew by its writer.
                self._offsets, self._whole, self._indexed = array("Q", [0]), 0, 0
                return True
            return False
        at, missing = -1, EVERY - self._whole % EVERY
        count = data.count(b"\n")
        found = 0
        while count - found >= missing:
            for _ in range(missing):
                at = data.find(b"\n", at + 1)
            found += missing
            missing = EVERY
            self._offsets.append(self._indexed + at + 1)
        self._whole += count
        self._indexed += len(data)
        return True

    def read(self, first: int, count: int) -> list[bytes]:
        """Lines from ``first`` (0-based) on, without their ends; long ones cut, with a note."""
        lines: list[bytes] = []
        offset = self._offsets[min(first // EVERY, len(self._offsets) - 1)]
        skip = first - min(first // EVERY, len(self._offsets) - 1) * EVERY
        rest, dropped = b"", 0
        while len(lines) < count and offset < self._indexed:
            data = os.pread(self._file.fileno(), min(1 << 16, self._indexed - offset), offset)
            if not data:
                break
            offset += len(data)
            pieces = data.split(b"\n")
            for index, piece in enumerate(pieces):
                room = max(0, LONGEST - len(rest))
                dropped += max(0, len(piece) - room)
                rest += piece[:room]
                if index == len(pieces) - 1:
                    break
                if skip:
                    skip -= 1
                elif len(lines) < count:
                    lines.append(_noted(rest, dropped))
                rest, dropped = b"", 0
        if len(lines) < count and rest and not skip:
            lines.append(_noted(rest, dropped))
        return lines

    def find(self, needle: bytes, line: int, step: int) -> int | None:
        """The next line after (1) or before (-1) ``line`` that holds the bytes; ASCII case does not count."""
        wanted = needle.lower()
        if not wanted:
            return None
        start = self._offset_of(line + 1 if step > 0 else line)
        at = self._forward(wanted, start) if step > 0 else self._backward(wanted, start)
        return None if at is None else self._line_at(at)

    def _forward(self, wanted: bytes, start: int) -> int | None:
        while start < self._indexed:
            data = os.pread(self._file.fileno(), STEP + len(wanted), start).lower()
            at = data.find(wanted)
            if at >= 0 and start + at < self._indexed:
                return start + at
            if not data:
                return None
            start += STEP
        return None

    def _backward(self, wanted: bytes, end: int) -> int | None:
        while end > 0:
            start = max(0, end - STEP)
            data = os.pread(self._file.fileno(), end - start + len(wanted) - 1, start).lower()
            at = data.rfind(wanted)
            if at >= 0 and start + at < end:
                return start + at
            end = start
        return None

    def _offset_of(self, line: int) -> int:
        page = min(line // EVERY, len(self._offsets) - 1)
        offset, missing = self._offsets[page], line - page * EVERY
        while missing > 0 and offset < self._indexed:
            data = os.pread(self._file.fileno(), 1 << 16, offset)
            if not data:
                break
            at = -1
            while missing > 0 and (at := data.find(b"\n", at + 1)) >= 0:
                missing -= 1
                if not missing:
                    return offset + at + 1
            offset += len(data)
        return min(offset, self._indexed)

    def _line_at(self, offset: int) -> int:
        from bisect import bisect_right

        page = bisect_right(self._offsets, offset) - 1
        line, at = page * EVERY, self._offsets[page]
        while at < offset:
            data = os.pread(self._file.fileno(), min(1 << 16, offset - at), at)
            if not data:
                break
            line += data.count(b"\n")
            at += len(data)
        return line

    def _ends_open(self) -> bool:
        return os.pread(self._file.fileno(), 1, self._indexed - 1) != b"\n"


def _noted(line: bytes, dropped: int) -> bytes:
    return line if not dropped else line + f" [... {dropped} more bytes]".encode()

"""Reading a range of lines from a byte stream of any size in bounded memory."""

from __future__ import annotations

import codecs
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ...sandbox.base.errors import ToolError
from ...sandbox.base.files import TextFile

__all__ = ["LineRange", "ShownLine", "binary_kind", "encoding_of", "read_lines"]

MAX_LINE_CHARS = 2000
MAX_TEXT_CHARS = 60_000
SNIFF_BYTES = 1 << 19
"""By so much of its beginning a file's encoding is judged."""
_CHUNK = 1 << 18

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or a jar, wheel or office document)"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\0", "xz-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xca\xfe\xba\xbe", "a Java class file"),
    (b"\0asm", "a WebAssembly module"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"RIFF", "a RIFF file (audio, video or WebP)"),
    (b"OggS", "an Ogg file"),
    (b"\0\0\1\0", "an icon"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
)
# These two-letter marks also begin ordinary text; they count only when other bytes say binary too.
_WEAK = (b"MZ", b"BZh", b"GIF8", b"RIFF", b"OggS", b"wOFF", b"wOF2")
_CONTROLS = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})
_UTF_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


@dataclass(frozen=True)
class ShownLine:
    number: int
    text: str
    """At most MAX_LINE_CHARS of it."""
    length: int
    """Characters of the whole line."""

    def shown(self) -> str:
        if self.length <= len(self.text):
            return self.text
        hidden = self.length - len(self.text)
        return f"{self.text}[... {hidden} of {self.length} characters of this line not shown ...]"


@dataclass(frozen=True)
class LineRange:
    lines: tuple[ShownLine, ...]
    total_lines: int
    total_bytes: int
    sha256: str
    stopped_at_limit: bool
    """Fewer lines than asked for, because their text was over MAX_TEXT_CHARS."""


def binary_kind(head: bytes) -> str | None:
    """What a file is when it is not text, judged by content only (names lie: ``a.ts``); else None."""
    if head.startswith(_UTF_MARKS):
        return None
    zero = b"\0" in head[:8192]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    odd = zero or controls > len(head) // 10
    for magic, kind in _MAGIC:
        if head.startswith(magic) and (odd or magic not in _WEAK):
            return kind
    if head[4:8] == b"ftyp" and zero:
        return "an MP4, MOV or HEIF file"
    if odd and head[:1] == b"\x47" and head[188:189] == b"\x47":
        return "an MPEG transport stream"
    return "binary data" if odd else None


def encoding_of(name: str, head: bytes, whole: bool) -> tuple[str, bytes, str]:
    """(codec, byte-order mark, newline style) of a text that begins with ``head``."""
    cuts = [0] if whole else [len(head) - head.rfind(b"\n") - 1, 0, 1, 2, 3]
    best: TextFile | None = None
    for cut in cuts:
        sample = head[: len(head) - cut]
        if not sample and head:
            continue
        best = TextFile.from_bytes(Path(name), sample)
        if best.encoding != "latin-1":
            break
    assert best is not None
    return best.encoding, best.bom, best.newline


def read_lines(stream: BinaryIO, name: str, start: int, end: int) -> LineRange:
    """Lines ``start`` to ``end`` (1-based, inclusive) of a text, reading it once from its beginning.

    Only the asked lines are kept, each cut to MAX_LINE_CHARS, so memory does not grow with
    the file. The whole file is read, for its hash and true line count.

    Raises:
        ToolError: the content is not text.
    """
    head = _read_exactly(stream, SNIFF_BYTES)
    kind = binary_kind(head)
    if kind is not None:
        raise ToolError(f"{name} is {kind}, not text", hint="bash can look at it with a fitting program")
    encoding, bom, _ = encoding_of(name, head, len(head) < SNIFF_BYTES)
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)("replace"), translate=True)
    collector = _Collector(start, end)
    digest = hashlib.sha256(head)
    total = len(head)
    collector.feed(decoder.decode(head[len(bom) :]))
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        total += len(chunk)
        collector.feed(decoder.decode(chunk))
    collector.feed(decoder.decode(b"", final=True))
    collector.finish()
    return LineRange(tuple(collector.lines), collector.number, total, digest.hexdigest(), collector.stopped)


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


class _Collector:
    """Takes text piece by piece, keeps the wanted lines, counts all."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._parts: list[str] = []
        self._length = 0
        self._kept = 0
        self._room = MAX_TEXT_CHARS
        self.lines: list[ShownLine] = []
        self.number = 0
        """Complete lines so far; after ``finish`` all lines."""
        self.stopped = False

    def feed(self, text: str) -> None:
        position = 0
        while (newline := text.find("\n", position)) >= 0:
            self._take(text, position, newline)
            self._close()
            position = newline + 1
            if self.number >= self._end or self.stopped:
                # Past the wanted lines only counting is left.
                self.number += text.count("\n", position)
                position = text.rfind("\n") + 1
        self._take(text, position, len(text))

    def finish(self) -> None:
        if self._length:
            self._close()

    def _take(self, text: str, start: int, end: int) -> None:
        self._length += end - start
        wanted = self._start <= self.number + 1 <= self._end and not self.stopped
        room = MAX_LINE_CHARS - self._kept
        if wanted and room > 0 and end > start:
            piece = text[start : min(end, start + room)]
            self._parts.append(piece)
            self._kept += len(piece)

    def _close(self) -> None:
        self.number += 1
        if self._start <= self.number <= self._end and not self.stopped:
            line = ShownLine(self.number, "".join(self._parts), self._length)
            self._room -= len(line.text) + 1
            if self._room < 0 and self.lines:
                self.stopped = True
            else:
                self.lines.append(line)
        self._parts, self._length, self._kept = [], 0, 0

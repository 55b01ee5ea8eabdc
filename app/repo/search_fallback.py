"""Line search in plain Python, run as a script: what ripgrep prints, without ripgrep.

A process of its own because Python's regular expressions can take exponential time and
cannot be interrupted; the caller's time limit ends the process. Standard library only,
imports nothing of ours.

Arguments: ``count`` or ``lines``, maximum lines per file (0 = all), ``i`` or ``-``
for ignoring case, the Python pattern, then the files. Prints ``path NUL count`` or
``path NUL line:column:`` per matching line, columns 1-based in bytes.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys

_CHUNK = 1 << 20


def read(path: str) -> bytes:
    """The whole regular file, as ``as_utf8`` gives it; nothing for what is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return as_utf8(stream.read())


def as_utf8(data: bytes) -> bytes:
    """Content without its UTF-8 mark, or turned to UTF-8 from marked UTF-16; other bytes as they are."""
    if data.startswith(codecs.BOM_UTF8):
        return data[3:]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8")
    return data


def undecodable_to_newline(error: UnicodeError) -> tuple[str, int]:
    """A byte that is no text matches nothing: it stands as a newline, which no pattern of ours matches."""
    assert isinstance(error, UnicodeDecodeError)
    return "\n" * (error.end - error.start), error.end


def matches_of(data: bytes, pattern: re.Pattern[str], limit: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for number, raw in enumerate(lines, 1):
        text = raw.decode("utf-8", "whimbrel-newline")
        match = pattern.search(text)
        if match is None:
            continue
        # Each undecodable byte became one character, so bytes are counted by encoding what is before.
        found.append((number, len(text[: match.start()].encode("utf-8")) + 1))
        if limit and len(found) >= limit:
            break
    return found


def main(arguments: list[str]) -> int:
    mode, limit, case, source = arguments[:4]
    codecs.register_error("whimbrel-newline", undecodable_to_newline)
    pattern = re.compile(source, re.IGNORECASE if case == "i" else 0)
    out = sys.stdout.buffer
    for path in arguments[4:]:
        try:
            data = read(path)
        except OSError:
            # Gone or unreadable since it was listed: the caller counts what it cannot read.
            continue
        found = matches_of(data, pattern, int(limit))
        name = os.fsencode(path) + b"\0"
        if mode == "count":
            if found:
                out.write(b"%s%d\n" % (name, len(found)))
        else:
            for line, column in found:
                out.write(b"%s%d:%d:\n" % (name, line, column))
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

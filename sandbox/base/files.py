"""The one way to write files: atomic, and without changing what was not meant to change."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import secrets
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from .errors import ToolError

_DECLARED = re.compile(rb"^[ \t\f]*(?:#|//|/?\*|<!--|--|;)?.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)")
_XML_DECLARED = re.compile(rb"^<\?xml[^>]*?encoding=[\"']([-_.a-zA-Z0-9]+)[\"']")
_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Multi-byte encodings tried for text that is neither UTF-8 nor declared; strict decoders only,
# and the bytes must come back unchanged. Latin-1 maps every byte and therefore comes last.
_GUESSES = ("shift_jis", "euc_jp", "euc_kr", "gb18030", "big5")
_NEWLINES = re.compile(r"\r\n|\r|\n")


def current_umask() -> int:
    """This process's umask, read without changing it where the system allows."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def read_regular(path: Path) -> bytes:
    """The content of a file that somebody else has put there: it may be a pipe, which is never waited for.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "is not a regular file", str(path))
        return file.read()


def atomic_write(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replaces the content of ``path`` so that any reader sees the old or the new, never a part.

    An existing file keeps its permission bits and, where we may, its owner; a new one
    follows the umask; ``mode`` overrides both. A symbolic link stays a link and its target is
    replaced. On failure the original is untouched and nothing is left beside it.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(21, "is a directory", str(target))
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise OSError(22, "is not a regular file", str(target))
    if mode is None:
        mode = stat.S_IMODE(before.st_mode) if before is not None else 0o666 & ~current_umask()
    temporary = target.parent / f".{target.name[:180]}.{secrets.token_hex(6)}.tmp"
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    # The rename itself must survive a power cut; file systems that cannot sync a directory are fine too.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_binary(data: bytes) -> bool:
    """Whether content looks like no text at all: a NUL in the first 8 KiB and no UTF-16/32 mark."""
    return b"\0" in data[:8192] and not any(data.startswith(bom) for bom, _ in _BOMS[1:])


@dataclass(frozen=True)
class TextFile:
    """A text file with everything needed to write it back byte for byte.

    ``text`` has ``\\n`` line ends only; ``newline`` is the file's style (the majority one when
    mixed), and lines that are not edited keep their own.
    """

    path: Path
    text: str
    encoding: str
    """Python codec name, e.g. utf-8, latin-1, shift_jis; without any BOM suffix."""
    bom: bytes
    newline: str
    final_newline: bool
    mode: int
    mixed_newlines: bool
    _original: bytes
    _raw_lines: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> TextFile:
        """Reads a regular text file.

        Raises:
            ToolError: it is missing, no regular file, unreadable or binary.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise ToolError(f"{path} does not exist") from error
        except OSError as error:
            raise ToolError(f"{path} cannot be read: {error.strerror or error}") from error
        details = os.fstat(descriptor)
        if not stat.S_ISREG(details.st_mode):
            os.close(descriptor)
            raise ToolError(f"{path} is not a regular file")
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
        return cls.from_bytes(path, data, mode=stat.S_IMODE(details.st_mode))

    @classmethod
    def from_bytes(cls, path: Path, data: bytes, *, mode: int | None = None) -> TextFile:
        """The same from content already read; ``mode`` None means a new file under the umask."""
        if is_binary(data):
            raise ToolError(f"{path} is a binary file and cannot be edited as text")
        bom, encoding = _detect(data)
        try:
            decoded = data[len(bom) :].decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise ToolError(f"{path} cannot be read as {encoding} text without loss") from error
        raw_lines = tuple(_split_lines(decoded))
        styles = [_line_end(line) for line in raw_lines]
        counts = {end: styles.count(end) for end in ("\n", "\r\n", "\r")}
        newline = max(counts, key=lambda end: counts[end]) if any(counts.values()) else "\n"
        return cls(
            path=path,
            text=_NEWLINES.sub("\n", decoded),
            encoding=encoding,
            bom=bom,
            newline=newline,
            final_newline=bool(styles) and styles[-1] != "",
            mode=mode if mode is not None else 0o666 & ~current_umask(),
            mixed_newlines=sum(1 for count in counts.values() if count) > 1,
            _original=data,
            _raw_lines=raw_lines,
        )

    def with_text(self, new: str) -> TextFile:
        """The file with other text (any newline style); unchanged lines keep their exact line ends."""
        return replace(self, text=_NEWLINES.sub("\n", new))

    def to_bytes(self) -> bytes:
        """The bytes that ``save`` writes.

        Raises:
            ToolError: the text holds characters the file's encoding has no bytes for.
        """
        raw = self._restore_line_ends()
        if raw == "".join(self._raw_lines):
            return self._original
        try:
            return self.bom + raw.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = raw[error.start : error.end][:10]
            raise ToolError(
                f"{self.path} is {self.encoding} text and has no way to write {bad!r}",
                hint="use characters of that encoding or an escape sequence",
            ) from error

    def save(self) -> None:
        """Writes the file back atomically with its permission bits.

        Raises:
            ToolError: it cannot be encoded or written; the file on disk is then untouched.
        """
        data = self.to_bytes()
        try:
            atomic_write(self.path, data, mode=self.mode)
        except OSError as error:
            raise ToolError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _restore_line_ends(self) -> str:
        if not self.mixed_newlines:
            return self.text if self.newline == "\n" else self.text.replace("\n", self.newline)
        # Mixed file: the lines before and after the edited stretch keep their own ends.
        old = list(self._raw_lines)
        new = _split_lines(self.text)
        plain = [_NEWLINES.sub("\n", line) for line in old]
        before = 0
        while before < min(len(old), len(new)) and plain[before] == new[before]:
            before += 1
        after = 0
        while after < min(len(old), len(new)) - before and plain[-1 - after] == new[-1 - after]:
            after += 1
        middle = [line.replace("\n", self.newline) for line in new[before : len(new) - after]]
        return "".join(old[:before] + middle + old[len(old) - after :])


def _split_lines(text: str) -> list[str]:
    """Lines with their ends; only LF, CRLF and CR end a line (not form feeds or U+2028)."""
    lines: list[str] = []
    position = 0
    for match in _NEWLINES.finditer(text):
        lines.append(text[position : match.end()])
        position = match.end()
    if position < len(text):
        lines.append(text[position:])
    return lines


def _line_end(line: str) -> str:
    if line.endswith("\r\n"):
        return "\r\n"
    return line[-1] if line[-1:] in ("\n", "\r") else ""


def _detect(data: bytes) -> tuple[bytes, str]:
    """BOM and codec under which ``data`` decodes and encodes back to the same bytes."""
    for bom, encoding in _BOMS:
        if data.startswith(bom) and _is_lossless(data[len(bom) :], encoding):
            return bom, encoding
    candidates: list[str] = []
    for line in data.split(b"\n", 2)[:2]:
        match = _XML_DECLARED.match(line) or _DECLARED.match(line)
        if match is not None:
            candidates.append(match.group(1).decode("ascii"))
    candidates += ["utf-8"]
    if data.count(b"\0") == 0:
        candidates += [name for name in _GUESSES if _looks_multibyte(data, name)]
    for encoding in candidates:
        if _is_lossless(data, encoding):
            return b"", codecs.lookup(encoding).name
    return b"", "latin-1"


def _is_lossless(data: bytes, encoding: str) -> bool:
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # pyright: ignore[reportPrivateUsage]
            return False
        return data.decode(encoding).encode(encoding) == data
    except (UnicodeError, LookupError, ValueError):
        return False


def _looks_multibyte(data: bytes, encoding: str) -> bool:
    """Whether high bytes come side by side and decode to letters of the encoding's script.

    In single-byte encodings such as Latin-1 two accented letters in a row are rare.
    """
    high = re.findall(rb"[\x80-\xff]+", data)
    total = sum(len(run) for run in high)
    if total < 6 or sum(len(run) for run in high if len(run) > 1) < 0.6 * total:
        return False
    try:
        text = data.decode(encoding)
    except UnicodeError:
        return False
    wide = [ord(char) for char in text if ord(char) > 0x7F]
    kana = sum(1 for code in wide if 0x3041 <= code <= 0x30FF)
    hangul = sum(1 for code in wide if 0xAC00 <= code <= 0xD7A3)
    ideographs = sum(1 for code in wide if 0x4E00 <= code <= 0x9FFF)
    marks = sum(1 for code in wide if 0x3000 <= code <= 0x303F or 0xFF01 <= code <= 0xFF60)
    if encoding in ("shift_jis", "euc_jp"):
        return kana >= 0.2 * len(wide) and kana + ideographs + marks >= 0.9 * len(wide)
    if encoding == "euc_kr":
        return hangul >= 0.95 * len(wide)
    return ideographs + marks >= 0.9 * len(wide)

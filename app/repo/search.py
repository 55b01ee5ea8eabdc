"""Text search in the files of a workspace: by ripgrep where it is installed, else by Python.

Both engines get the same file list, the same pattern (see ``patterns``) and print the
same thing, line numbers and columns only. The text of the shown lines is then read
here, from files opened without following links, so a process inside the sandbox that
swaps a file for a link while we search gains nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...sandbox.base.errors import ToolError
from ...sandbox.base.process import base_environment, run_process
from . import search_fallback
from .files import looks_binary, read_regular
from .globs import path_filter
from .patterns import Pattern

__all__ = ["Match", "SearchResult", "search"]

Engine = Literal["auto", "ripgrep", "python"]

MAX_FILE_BYTES = 16 << 20
MAX_LINE_CHARS = 400
_BATCH_BYTES = 400_000
_SNIFF = 8192
_RECORD = re.compile(rb"([^\0]+)\0(\d+)(?::(\d+):[^\n]*)?\n", re.DOTALL)


@dataclass(frozen=True)
class Match:
    """One matching line."""

    path: str
    line: int
    """1-based."""
    column: int
    """1-based byte offset of the first match in the line (as UTF-8)."""
    text: str
    """The line without its end; cut around the match when longer than MAX_LINE_CHARS."""
    line_length: int
    """Characters of the whole line."""

    @property
    def cut(self) -> bool:
        return self.line_length > len(self.text)


@dataclass(frozen=True)
class SearchResult:
    """Matches sorted by path and line, with the true totals."""

    matches: tuple[Match, ...]
    total_lines: int
    """Matching lines in all searched files, shown or not."""
    total_files: int
    """Files with at least one matching line."""
    searched_files: int
    engine: str
    notes: tuple[str, ...] = ()

    @property
    def truncated(self) -> bool:
        return self.total_lines > len(self.matches)


async def search(
    root: Path,
    pattern: Pattern,
    files: Iterable[str],
    *,
    log_dir: Path,
    globs: Sequence[str] = (),
    max_results: int = 100,
    engine: Engine = "auto",
    timeout_s: float = 60,
) -> SearchResult:
    """Searches ``files`` (relative to ``root``) line by line.

    Binary files, links and files over 16 MiB are left out (the latter are noted). A
    UTF-8 or UTF-16 mark is honoured; other bytes that are not UTF-8 match nothing.

    Args:
        log_dir: where the engine's raw output lies while it is read.
        max_results: matching lines given back; the totals count all.

    Raises:
        ToolError: ripgrep was demanded and is missing, a glob is bad, or the time was up.
    """
    passes = path_filter(globs)
    candidates = sorted({name for name in files if passes(name)})
    chosen, notes = await asyncio.to_thread(_searchable, root, candidates)
    run = _Run(root, pattern, log_dir, _program(engine), timeout_s)
    counts: dict[str, int] = {}
    for path, number, _ in await run.records("count", 0, chosen):
        counts[path] = number
    wanted: list[str] = []
    room = max_results
    for path in sorted(counts):
        if room <= 0:
            break
        wanted.append(path)
        room -= counts[path]
    spots: dict[str, list[tuple[int, int]]] = {}
    for path, line, column in await run.records("lines", max_results, wanted):
        spots.setdefault(path, []).append((line, column))
    matches, changed = await asyncio.to_thread(_shown, root, spots, max_results)
    if changed:
        notes.append(f"{changed} file(s) changed while they were searched and are not shown")
    return SearchResult(
        matches=tuple(matches),
        total_lines=sum(counts.values()),
        total_files=len(counts),
        searched_files=len(chosen),
        engine=run.engine,
        notes=tuple(notes),
    )


def _program(engine: Engine) -> str | None:
    """The path of ripgrep, or None for Python."""
    program = None if engine == "python" else shutil.which("rg")
    if engine == "ripgrep" and program is None:
        raise ToolError("ripgrep (rg) is not installed", hint="install it, or search with the Python engine")
    return program


def _searchable(root: Path, files: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that are text and of bearable size, and notes on those that are not bearable."""
    chosen: list[str] = []
    large: list[str] = []
    unreadable: list[str] = []
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for name in files:
        path = os.path.join(root, name)  # noqa: PTH118 (ten thousand times: Path objects cost more)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(name)
            continue
        try:
            details = os.fstat(descriptor)
            if not stat.S_ISREG(details.st_mode):
                continue
            if looks_binary(os.read(descriptor, _SNIFF)):
                continue
            if details.st_size > MAX_FILE_BYTES:
                large.append(name)
                continue
        finally:
            os.close(descriptor)
        chosen.append(name)
    notes = [f"{_some(large)} over {MAX_FILE_BYTES >> 20} MiB not searched"] if large else []
    if unreadable:
        notes.append(f"{_some(unreadable)} cannot be read")
    return chosen, notes


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


class _Run:
    """One search: the engine's command lines and what they print."""

    def __init__(
        self, root: Path, pattern: Pattern, log_dir: Path, ripgrep: str | None, timeout_s: float
    ) -> None:
        self._root = root
        self._pattern = pattern
        self._log_dir = log_dir
        self._ripgrep = ripgrep
        self._timeout_s = timeout_s

    @property
    def engine(self) -> str:
        return "ripgrep" if self._ripgrep else "python"

    async def records(
        self, mode: Literal["count", "lines"], limit: int, files: Sequence[str]
    ) -> list[tuple[str, int, int]]:
        """(path, count, 0) or (path, line, column) of every matching file or line."""
        found: list[tuple[str, int, int]] = []
        for batch in _batches(files):
            found.extend(await self._one(self._argv(mode, limit) + batch))
        return found

    def _argv(self, mode: str, limit: int) -> list[str]:
        pattern = self._pattern
        if self._ripgrep is None:
            case = "i" if pattern.ignore_case else "-"
            script = str(Path(search_fallback.__file__))
            return [sys.executable, "-I", "-S", script, mode, str(limit), case, pattern.python]
        argv = [self._ripgrep, "--no-config", "--no-messages", "--color=never", "--no-heading"]
        argv += ["--with-filename", "--null", "--text", "--no-mmap"]
        argv += ["--ignore-case" if pattern.ignore_case else "--case-sensitive"]
        if mode == "count":
            argv += ["--count"]
        else:
            # One column wide: only positions are printed, so the output stays small on minified files.
            argv += ["--line-number", "--column", "--max-columns=1"]
        if limit:
            argv += [f"--max-count={limit}"]
        argv += ["--fixed-strings"] if pattern.fixed else []
        return [*argv, "-e", pattern.rust, "--"]

    async def _one(self, argv: Sequence[str]) -> list[tuple[str, int, int]]:
        log = self._log_dir / f"search-{uuid.uuid4().hex}.out"
        environment = base_environment({"LC_ALL": "C.UTF-8"})
        try:
            result = await run_process(
                argv, cwd=self._root, env=environment, log_path=log, timeout_s=self._timeout_s
            )
            output = log.read_bytes()
        finally:
            with contextlib.suppress(OSError):
                log.unlink()
        if result.timed_out:
            raise ToolError(
                f"the search did not end within {self._timeout_s:g} s",
                hint="use a simpler pattern, or narrow it with path or globs",
            )
        found = [
            (os.fsdecode(match[1]), int(match[2]), int(match[3] or 0)) for match in _RECORD.finditer(output)
        ]
        failed = result.exit_code > 1 if self._ripgrep else result.exit_code != 0
        if failed and not found and output.strip():
            last = output.decode("utf-8", "replace").strip().splitlines()[-1]
            raise ToolError(f"{self.engine} could not run this search: {last[:300]}")
        return found


def _batches(files: Sequence[str]) -> Iterator[list[str]]:
    """Command lines of bounded length."""
    batch: list[str] = []
    size = 0
    for name in files:
        length = len(os.fsencode(name)) + 1
        if batch and size + length > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += length
    if batch:
        yield batch


def _shown(root: Path, spots: dict[str, list[tuple[int, int]]], max_results: int) -> tuple[list[Match], int]:
    """The first matches with their text, and the number of files that changed meanwhile."""
    matches: list[Match] = []
    changed = 0
    for path in sorted(spots):
        room = max_results - len(matches)
        found = _texts(root, path, sorted(spots[path])[:room])
        changed += found is None
        matches.extend(found or ())
    return matches, changed


def _texts(root: Path, path: str, spots: Sequence[tuple[int, int]]) -> list[Match] | None:
    """The matching lines of one file, or None when it is not what was searched any more."""
    try:
        data = read_regular(root, path, MAX_FILE_BYTES)
    except (ToolError, OSError):
        return None
    if data is None:
        return None
    lines = search_fallback.as_utf8(data).split(b"\n")
    found: list[Match] = []
    for line, column in spots:
        if line > len(lines):
            return None
        raw = lines[line - 1].removesuffix(b"\r")
        text = raw.decode("utf-8", "replace")
        at = len(raw[: column - 1].decode("utf-8", "replace"))
        found.append(Match(path, line, column, _cut(text, at), len(text)))
    return found


def _cut(text: str, at: int) -> str:
    if len(text) <= MAX_LINE_CHARS:
        return text
    start = max(0, min(at - MAX_LINE_CHARS // 4, len(text) - MAX_LINE_CHARS))
    return text[start : start + MAX_LINE_CHARS]

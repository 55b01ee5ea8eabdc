"""Showing a command's output: head, the failing lines of the middle, tail, and true sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .results import ExecResult

_FAILING = re.compile(
    rb"(?:error|exception)s?\b|\b(?:fail|failed|failure|failures|fatal|assert|panic|panicked|abort|aborted|segfault"
    rb"|undefined|denied|killed|cannot|unable)\b"
    rb"|traceback \(|segmentation fault|core dumped"
    rb"|not found|no such file",
    re.IGNORECASE,
)
# Every match of the pattern holds one of these, in lower case.
_WORDS = (
    b"error",
    b"exception",
    b"fail",
    b"fatal",
    b"assert",
    b"panic",
    b"abort",
    b"segfault",
    b"undefined",
    b"denied",
    b"killed",
    b"cannot",
    b"unable",
    b"traceback (",
    b"segmentation fault",
    b"core dumped",
    b"not found",
    b"no such file",
)
# Lines that hold such a word while saying that nothing is wrong.
_HARMLESS = re.compile(rb"\b(?:0|no) (?:errors?|failures?|failed)\b|^\S+ PASSED\b", re.IGNORECASE)
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SCAN_BYTES = 16 << 20
_HITS_BEFORE_SKIPPING = 2000


@dataclass(frozen=True)
class FailingLine:
    """A line worth showing; ``number`` counts from 1, ``text`` is clean and cut to a width."""

    number: int
    text: str
    size: int
    """Bytes of the whole line, without its newline."""


def clean_text(data: bytes) -> str:
    """Output bytes as plain text: no colour codes, other control characters made visible."""
    text = _ANSI.sub("", data.decode("utf-8", "replace"))
    text = text.replace("\r\n", "\n")
    # A progress bar redraws its line with carriage returns: its last state is what a person saw.
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
    return _CONTROL.sub(_visible, "\n".join(lines))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return "\u2421" if code == 0x7F else chr(0x2400 + code)


def cut_line(line: bytes, width: int, around: int | None = None) -> str:
    """One line as clean text of about ``width`` bytes, cut in the middle with the true number left out.

    ``around`` is the byte offset of something that must stay visible.
    """
    if len(line) <= width:
        return clean_text(line)
    half = width // 2
    if around is None or around < half or around >= len(line) - half:
        hidden = len(line) - 2 * half
        return f"{clean_text(line[:half])}[... {hidden} bytes of this line ...]{clean_text(line[-half:])}"
    third = width // 3
    start, end = max(third, around - third // 2), min(len(line) - third, around + third)
    before, after = start - third, len(line) - third - end
    return (
        f"{clean_text(line[:third])}[... {before} bytes of this line ...]{clean_text(line[start:end])}"
        f"[... {after} bytes of this line ...]{clean_text(line[len(line) - third :])}"
    )


def failing_lines(
    data: bytes, *, limit: int = 40, width: int = 400, first_number: int = 1
) -> tuple[FailingLine, ...]:
    """Lines of ``data`` that look like errors, failures, assertions or tracebacks.

    When there are more than ``limit``, the first and the last halves are kept. A line longer
    than ``width`` bytes is cut in the middle, keeping the telling place visible.
    """
    found: list[FailingLine] = []
    half = max(1, limit // 2)
    number, counted = first_number, 0
    position = hits = 0
    lowered = data.lower()
    upcoming = {word: lowered.find(word) for word in _WORDS}
    while True:
        # Plain searches for each word are many times faster than one pattern over everything.
        upcoming = {
            word: place if place >= position else lowered.find(word, position)
            for word, place in upcoming.items()
            if place >= 0
        }
        hit = min((place for place in upcoming.values() if place >= 0), default=-1)
        if hit < 0:
            break
        start = data.rfind(b"\n", 0, hit) + 1
        end = data.find(b"\n", hit)
        end = len(data) if end < 0 else end
        match = _FAILING.search(data, start, end)
        if match is None:
            position = end + 1
            continue
        number += data.count(b"\n", counted, start)
        counted = start
        line = data[start:end].rstrip(b"\r")
        if not _HARMLESS.search(line[:1000]):
            found.append(FailingLine(number, cut_line(line, width, match.start() - start), len(line)))
            if len(found) > limit:
                del found[half]
        position = end + 1
        hits += 1
        if hits == _HITS_BEFORE_SKIPPING and limit < hits:
            # Only the first and the last ones are kept: a log full of errors need not be read wholly.
            near_end = data.rfind(b"\n", 0, max(0, len(data) - (1 << 20))) + 1
            position = max(position, near_end)
    return tuple(found)


def _cut_block(data: bytes, width: int) -> str:
    lines = data.split(b"\n")
    return "\n".join(cut_line(line.rstrip(b"\r"), width) for line in lines)


def _middle(result: ExecResult) -> tuple[bytes, int, str]:
    """The unseen part of the log (at most 16 MiB, its end), the number of its first line, and a note."""
    start, end = len(result.head), result.total_bytes - len(result.tail)
    try:
        with result.log_path.open("rb") as log:
            size = log.seek(0, 2)
            end = min(end, size)
            # Begin at a line's start, so that a line split by the head is seen whole.
            start = result.head.rfind(b"\n") + 1
            first = result.head.count(b"\n") + 1
            skip_to = max(start, end + len(result.tail) - _SCAN_BYTES)
            log.seek(start)
            while start < skip_to:
                piece = log.read(min(1 << 20, skip_to - start))
                if not piece:
                    break
                start += len(piece)
                first += piece.count(b"\n")
            # Up to the end of the line in which the tail begins.
            data = log.read(max(0, end - start))
            data += log.readline(1 << 20)
    except OSError as error:
        return b"", 1, f"the log could not be read again: {error.strerror or error}"
    return data, first, ""


def render_output(result: ExecResult, *, max_bytes: int = 24_000, log_name: str | None = None) -> str:
    """The output for a person or a model: everything when short, else head, failing lines and tail.

    Long lines are cut in the middle; every gap states true sizes and where the whole log lies
    (``log_name``, by default the log's path).
    """
    where = log_name if log_name is not None else str(result.log_path)
    width = 2000
    data = result.head + result.tail
    if not result.truncated and len(data) <= max_bytes:
        return _cut_block(data, width)
    share = max_bytes // 3
    if result.truncated:
        middle, first, note = _middle(result)
        head, tail = result.head[:share], result.tail[-share:]
        shown = failing_lines(middle, first_number=first)
    else:
        note = ""
        head, tail = data[:share], data[-share:]
        line_start = head.rfind(b"\n") + 1
        shown = failing_lines(data[line_start : len(data) - share], first_number=head.count(b"\n") + 1)
    hidden = result.total_bytes - len(head) - len(tail)
    parts = [
        _cut_block(head, width),
        f"[... {hidden} of {result.total_bytes} bytes ({result.total_lines} lines) not shown; "
        f"whole log: {where} ...]",
    ]
    if note:
        parts.append(f"[{note}]")
    if shown:
        parts.append("[lines of the hidden part that look like failures:]")
        budget = share
        for line in shown:
            text = f"{line.number}: {line.text}"
            budget -= len(text)
            if budget < 0:
                parts.append("[... more in the log ...]")
                break
            parts.append(text)
        parts.append("[end of the output:]")
    parts.append(_cut_block(tail, width))
    return "\n".join(parts)

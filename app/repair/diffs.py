"""Unified diffs that ``git apply`` accepts, from two texts of a file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from .candidates import Candidate
from .source import ModuleSource


def patch_of(candidate: Candidate, sources: Mapping[str, ModuleSource]) -> str:
    """One patch with the diffs of all files that a candidate edits."""
    edited = [sources[part.path] for part in candidate.parts]
    return "".join(unified_diff(source.path, source.text, candidate.text(source)) for source in edited)


def unified_diff(path: str, before: str, after: str, context_lines: int = 3) -> str:
    """The diff in git's form; lines end at ``\\n`` only, as git sees them."""
    pieces = [f"diff --git a/{path} b/{path}\n"]
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"a/{path}", f"b/{path}", n=context_lines, lineterm="\n"
    )
    for line in lines:
        if line.endswith("\n"):
            pieces.append(line)
        else:
            pieces.append(line + "\n\\ No newline at end of file\n")
    return "".join(pieces)


def _lines(text: str) -> list[str]:
    pieces = text.split("\n")
    return [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])

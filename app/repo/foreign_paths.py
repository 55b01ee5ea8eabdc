"""Maps file names printed on other machines to files of this repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .testing.report import TraceFrame


class PathIndex:
    """Maps paths of other machines to files of this repository.

    Args:
        files: repository-relative paths with forward slashes.
    """

    def __init__(self, files: Iterable[str] = ()) -> None:
        self._by_name: dict[str, list[tuple[str, ...]]] = {}
        for file in files:
            parts = tuple(file.split("/"))
            self._by_name.setdefault(parts[-1], []).append(parts)

    def find(self, path: str) -> str | None:
        """The repository's file for a printed path: longest common tail; None when unclear or foreign."""
        parts = tuple(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))
        if not parts or path.startswith("<"):
            return None
        installed = _after_site_packages(parts)
        if installed is None and _is_standard_library(parts):
            return None
        best: list[tuple[str, ...]] = []
        length = 0
        for candidate in self._by_name.get(parts[-1], ()):
            common = _common_tail(candidate, parts)
            whole = common == len(candidate) or common == len(parts)
            if installed is not None and common < len(installed):
                continue
            if not whole and common < 2:
                continue
            if common > length:
                best, length = [candidate], common
            elif common == length:
                best.append(candidate)
        if len(best) > 1:
            # The file that the path holds whole is the one; otherwise nobody can tell.
            best = [candidate for candidate in best if len(candidate) == length]
        return "/".join(best[0]) if len(best) == 1 else None

    def frame(self, path: str, line: int, function: str, code: str = "") -> TraceFrame:
        found = self.find(path)
        return TraceFrame(found or path, line, function, code, in_repository=found is not None)


def _after_site_packages(parts: Sequence[str]) -> Sequence[str] | None:
    for index in range(len(parts) - 1, -1, -1):
        if parts[index] in ("site-packages", "dist-packages"):
            return parts[index + 1 :]
    return None


def _is_standard_library(parts: Sequence[str]) -> bool:
    folders = parts[:-1]
    return any(
        re.fullmatch(r"python3\.\d+", folder) and index and folders[index - 1] in ("lib", "lib64")
        for index, folder in enumerate(folders)
    )


def _common_tail(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if a != b:
            break
        count += 1
    return count

"""Which parts of a change a proof does without: tests, their configuration, left-overs, links out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...sandbox.workspace import ChangedFile
from ...sandbox.workspace.names import is_junk, is_test_configuration, is_test_module, is_test_path

_NAMES_OF_THE_JUDGE = re.compile(
    rb"\b(?:PYTEST_CURRENT_TEST|_?pytest|unittest|conftest|doctest|_getframe|currentframe|settrace|setprofile"
    rb"|os\s*\.\s*_exit|atexit)\b|\binspect\s*\.\s*stack\b|\bsys\s*\.\s*(?:modules|argv)\b"
)


@dataclass
class Sorted:
    """A change, sorted by what a proof may rest on. Paths; a renamed file is two."""

    code: list[str] = field(default_factory=list[str])
    new_tests: list[str] = field(default_factory=list[str])
    """Test modules that did not exist at the start; they stay, and must pass."""
    edited_tests: list[str] = field(default_factory=list[str])
    """Test files (and their helpers and data) that existed, and new ones that are no test modules."""
    configuration: list[str] = field(default_factory=list[str])
    junk: list[str] = field(default_factory=list[str])
    links_out: list[str] = field(default_factory=list[str])

    @property
    def put_back(self) -> tuple[str, ...]:
        """What is as it was at the start when the proof runs."""
        return (*self.edited_tests, *self.configuration, *self.junk, *self.links_out)

    def remarks(self) -> list[str]:
        """One line for each kind that was put back."""
        lines: list[str] = []
        for paths, what in (
            (self.edited_tests, "test files were changed: they count as they were and stay out of the patch"),
            (
                self.configuration,
                "what decides how tests run was changed: it counts as it was, and stays out of the patch",
            ),
            (self.junk, "left-over files stay out of the patch"),
            (self.links_out, "links that lead out of the repository stay out of the patch"),
        ):
            if paths:
                lines.append(f"{what}: {_some(paths)}")
        if self.new_tests:
            lines.append(f"the patch adds test files: {_some(self.new_tests)}")
        return lines


def sort_changes(changes: Sequence[ChangedFile], root: Path) -> Sorted:
    """Sorts changed files (without renames) of the working copy at ``root``."""
    result = Sorted()
    for change in changes:
        path, new = change.path, change.status == "A"
        if change.status != "D" and _leads_out(root, path):
            result.links_out.append(path)
        elif is_test_configuration(path, new=new):
            result.configuration.append(path)
        elif is_test_path(path):
            (result.new_tests if new and is_test_module(path) else result.edited_tests).append(path)
        elif new and is_junk(path):
            result.junk.append(path)
        else:
            result.code.append(path)
    return result


def notices_tests(patch: bytes) -> tuple[str, ...]:
    """Files outside the tests in which a patch adds code that can tell that tests are running.

    Such code may be right (a test helper that is shipped) or made for the tests alone: a person
    should look at it.
    """
    found: dict[str, None] = {}
    path = ""
    for line in patch.split(b"\n"):
        if line.startswith(b"+++ "):
            path = line[4:].strip().strip(b'"').removeprefix(b"b/").decode("utf-8", "replace")
        elif line.startswith(b"+") and _NAMES_OF_THE_JUDGE.search(line) and not is_test_path(path):
            found[path] = None
    return tuple(found)


def _leads_out(root: Path, path: str) -> bool:
    try:
        target = str((root / path).readlink())
    except OSError:
        return False  # no link
    place = os.path.normpath(os.path.join("/", "top", os.path.dirname(path), target))  # noqa: PTH118, PTH120
    return target.startswith("/") or not (place == "/top" or place.startswith("/top/"))


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")

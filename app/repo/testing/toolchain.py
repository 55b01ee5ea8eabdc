"""Test frameworks of other languages: what their adapters share.

Such an adapter starts the language's own tool, which the sandbox must hold, and reads the report
that the tool writes. A selection that the tool takes only roughly is narrowed when it is read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from ....sandbox.base.errors import ToolError
from ....sandbox.base.results import ExecResult
from ..files import read_regular
from .events import Gathered
from .problems import Diagnosis, RunProblem
from .report import CollectionError, Outcome, TestCase, TraceFrame
from .textclean import clean_text

MAX_OUTPUT = 16_000
_MAX_LOG = 64 << 20
_MAX_FILE = 1 << 20
_MAX_WALKED = 20_000
SKIPPED_FOLDERS = frozenset(
    (
        ".git",
        ".hg",
        "node_modules",
        "target",
        "vendor",
        "build",
        "dist",
        ".venv",
        "venv",
        "__pycache__",
        ".tox",
    )
)


@runtime_checkable
class Toolchain(Protocol):
    """An adapter whose tests need no Python but these programs."""

    toolchain: ClassVar[tuple[str, ...]]
    """Programs that must be there, the most telling first."""
    name: ClassVar[str]


@dataclass(frozen=True)
class Ended:
    """A process that is over, for the reader of its report."""

    gathered: Gathered
    result: ExecResult
    report: bytes
    """Content of the plan's report file; empty when there is none."""
    root: str
    """The repository inside the sandbox."""
    workspace: Path
    """The same directory on this machine: untrusted, read it with ``source``."""
    selection: tuple[str, ...] | None

    def log(self) -> str:
        """Everything it printed, escape sequences removed."""
        data = b""
        if self.result.truncated:
            try:
                with self.result.log_path.open("rb") as file:
                    data = file.read(_MAX_LOG)
            except OSError:
                data = b""
        return clean_text(data.decode("utf-8", "replace") if data else self.result.text())

    def add(self, case: TestCase) -> None:
        """Takes a case into the report unless it was not asked for."""
        if wanted(case.id, case.path, self.selection):
            self.gathered.add(case)

    def broken(self, paths: Iterable[str], message: str, frames: tuple[TraceFrame, ...] = ()) -> None:
        """Files whose tests could not be built or loaded because of the repository's own code."""
        for path in paths:
            if self.selection is None or any(
                _covers(one, path) or one.startswith(f"{path}::") for one in self.selection
            ):
                error = CollectionError(path, "BuildError", clean_text(message)[:2000], frames)
                self.gathered.collection_errors[path, ""] = error
        self.gathered.diagnoses.append(
            Diagnosis(RunProblem.COLLECTION_ERROR_IN_CODE, message.split("\n", 1)[0])
        )

    def relative(self, path: str) -> str:
        """A path of the tool's output, repository-relative where it lies in the repository."""
        path = path.removeprefix("file://")
        for root in (self.root, str(self.workspace)):
            if path.startswith(f"{root}/"):
                return path[len(root) + 1 :]
        return path.removeprefix("./")

    def nothing(self) -> Diagnosis:
        """Why there is no report, from the exit code and the last words."""
        lines = [line for line in self.log().strip().splitlines() if line.strip()]
        last = lines[-1][:300] if lines else "no output"
        if self.result.timed_out:
            return Diagnosis(RunProblem.TIMED_OUT, "the run's time limit ended the command")
        if self.result.exit_code in (126, 127):
            return Diagnosis(RunProblem.COMMAND_NOT_FOUND, last)
        if self.result.exit_code == 0:
            return Diagnosis(RunProblem.NO_TESTS, "no tests were found")
        return Diagnosis(
            RunProblem.INTERNAL_ERROR, f"no test report (exit code {self.result.exit_code}): {last}"
        )


Reader = Callable[[Ended], Diagnosis | None]


def wanted(test_id: str, path: str, selection: Sequence[str] | None) -> bool:
    """Whether a selection names this test, its file, a folder above it or a test that holds it."""
    if selection is None:
        return True
    return any(
        test_id == one
        or test_id.startswith((f"{one}::", f"{one} > ", f"{one}/", f"{one}#"))
        or _covers(one, path)
        for one in selection
    )


def _covers(name: str, path: str) -> bool:
    name = name.removeprefix("./").rstrip("/") or "."
    return bool(path) and (name in (path, ".") or path.startswith(f"{name}/"))


def files_of(root: Path, matches: Callable[[str], bool]) -> Iterator[str]:
    """Repository-relative regular files whose name matches; dependency and build folders are left out."""
    seen = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")
        )
        for name in sorted(names):
            seen += 1
            if seen > _MAX_WALKED:
                return
            if matches(name) and not os.path.islink(os.path.join(folder, name)):  # noqa: PTH114, PTH118
                yield os.path.relpath(os.path.join(folder, name), root)  # noqa: PTH118


def source(root: Path, path: str) -> str:
    """The text of a file of the repository; empty when it is none, too large or a link."""
    try:
        data = read_regular(root, path, _MAX_FILE)
    except (OSError, ToolError):
        return ""
    return (data or b"").decode("utf-8", "replace")


def json_file(root: Path, path: str) -> dict[str, Any]:
    """A JSON object of the repository, empty when there is none."""
    try:
        value: Any = json.loads(source(root, path) or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def any_of(names: Iterable[str]) -> str:
    """A regular expression for exactly these names."""
    return "^(" + "|".join(re.escape(name) for name in dict.fromkeys(names)) + ")$"


def failed(outcome: Outcome, message: str, output: str) -> Mapping[str, Any]:
    """Fields of a bad case, bounded."""
    return {
        "outcome": outcome,
        "message": clean_text(message)[:2000],
        "output": clean_text(output[-MAX_OUTPUT:]),
    }

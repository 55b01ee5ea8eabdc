"""Runs snippets inside the sandbox, as a throw-away test module, and reads what they showed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, cast

from ....sandbox.base.errors import ToolError
from ....sandbox.workspace import Workspace
from ...repo.foreign_paths import PathIndex
from ...repo.testing.runner import TestRunner
from .snippets import Snippet

PROBE_TIMEOUT_S = 20.0
"""Of one snippet."""


@dataclass(frozen=True)
class Raised:
    """An exception that a statement ended with."""

    type: str
    """Dotted where it is not a builtin."""
    bases: tuple[str, ...]
    """Class names from itself to BaseException."""
    message: str
    frames: tuple[tuple[str, int, str], ...]
    """(path, line, function), outermost first; repository-relative where it lies in it."""

    @property
    def name(self) -> str:
        return self.type.rpartition(".")[2]

    @property
    def in_project(self) -> bool:
        """Whether code of the repository was running when it was raised."""
        return any(not path.startswith(("/", "<")) for path, _, _ in self.frames)


@dataclass(frozen=True)
class Observation:
    """What one statement showed."""

    ran: bool = False
    hung: bool = False
    stdout: str = ""
    error: Raised | None = None
    has_value: bool = False
    repr: str = ""
    """Empty when it is too long to be compared."""
    str: str = ""
    type: str = ""


async def probe(
    workspace: Workspace, tests: TestRunner, snippets: Sequence[tuple[Snippet, Sequence[str]]], folder: str
) -> list[list[Observation]]:
    """Runs each snippet (with the import lines it needs) in one namespace of its own.

    Args:
        folder: where the project's tests lie, relative; a test module is written there and removed.

    Returns:
        Per snippet one observation per step; the imports' own are left out. Empty where the module
        did not run at all.

    Raises:
        EnvironmentBroken, SandboxDied: as ``TestRunner.run``.
    """
    place = await tests.place()
    payload = [
        {
            "files": {each.name: each.text for each in snippet.attachments},
            "steps": [
                *({"form": "other", "source": line, "expression": ""} for line in imports),
                *(
                    {"form": step.form.value, "source": step.source, "expression": step.expression}
                    for step in snippet.steps
                ),
            ],
        }
        for snippet, imports in snippets
    ]
    digest = hashlib.sha256(json.dumps(payload).encode()).hexdigest()[:12]
    report = f"{place.base}/issue-{digest}"
    path = f"{folder}/test_issue_probe_{digest}.py".lstrip("/")
    before = tests.test_timeout_s
    tests.test_timeout_s = min(before, PROBE_TIMEOUT_S)
    workspace.write(path, _module(report, payload).encode("utf-8"))
    try:
        await tests.run(selection_of(tests, path), purpose="issue snippets")
        found: list[list[Observation]] = []
        index = PathIndex(await workspace.files())
        for number, (_, imports) in enumerate(snippets):
            try:
                data = await tests.sandbox.read(f"{report}.{number}")
            except (ToolError, OSError):
                found.append([])
                continue
            rows = cast("list[dict[str, Any]]", json.loads(data))
            found.append([_observation(row, tests.workdir, index) for row in rows[len(imports) :]])
            first_errors = [row for row in rows[: len(imports)] if row.get("error")]
            if first_errors:
                found[-1] = []
        return found
    finally:
        tests.test_timeout_s = before
        workspace.resolve(path).unlink(missing_ok=True)
        await tests.remove_inside([f"{report}.{number}" for number in range(len(snippets))])


def selection_of(tests: TestRunner, path: str) -> tuple[str, ...]:
    """How the framework calls the tests of one file: unittest by a name that depends on where it looks."""
    if tests.adapter.name != "unittest":
        return (path,)
    parts = path.removesuffix(".py").split("/")
    return tuple(".".join(parts[start:]) for start in range(len(parts)))


def _module(report: str, payload: Sequence[Mapping[str, Any]]) -> str:
    helper = resources.files(__package__ or "").joinpath("probe_inside.py").read_text(encoding="utf-8")
    lines = [
        helper,
        "",
        "import unittest",
        "",
        f"_REPORT = {report!r}",
        f"_SNIPPETS = json.loads({json.dumps(payload)!r})",
    ]
    lines += ["", "", "class IssueProbe(unittest.TestCase):"]
    for number in range(len(payload)):
        lines += [
            f"    def test_{number:03d}(self):",
            f"        run_snippet({number}, _SNIPPETS[{number}], _REPORT)",
            "",
        ]
    return "\n".join(lines)


def _observation(row: Mapping[str, Any], workdir: str, index: PathIndex) -> Observation:
    if not row.get("ran"):
        return Observation(hung=bool(row.get("running")))
    error = cast("Mapping[str, Any] | None", row.get("error"))
    value = cast("Mapping[str, Any] | None", row.get("value"))
    raised = None
    if error is not None:
        frames = tuple((_relative(path, workdir, index), line, name) for path, line, name in error["frames"])
        raised = Raised(
            error["type"], tuple(error["bases"]), error["message"].replace(f"{workdir}/", ""), frames
        )
    shown = value or {}
    return Observation(
        True, False, row.get("stdout", ""), raised, value is not None,
        shown.get("repr", ""), shown.get("str", ""), shown.get("type", ""),
    )  # fmt: skip


def _relative(path: str, workdir: str, index: PathIndex) -> str:
    if path.startswith(f"{workdir}/"):
        return path[len(workdir) + 1 :]
    found = None if path.startswith("/") else index.find(path)
    return found or path

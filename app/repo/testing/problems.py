"""Why a test run could not say what it was asked: the environment, the command, or the code itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class RunProblem(Enum):
    """What stood in the way of a run (or of a part of it)."""

    FRAMEWORK_MISSING = "framework_missing"
    """The test framework is not installed in the project's environment."""
    MISSING_DEPENDENCY = "missing_dependency"
    """A module that the repository does not hold cannot be imported."""
    BROKEN_DEPENDENCY = "broken_dependency"
    """An installed package fails to import, or lacks a name the project imports from it."""
    NOT_BUILT = "not_built"
    """A generated file or compiled extension of the project is missing."""
    USAGE_ERROR = "usage_error"
    """The framework rejects its command line or configuration file."""
    COMMAND_NOT_FOUND = "command_not_found"
    """The test command cannot be started."""
    COLLECTION_ERROR_IN_CODE = "collection_error_in_code"
    """Collection fails inside the repository's code: a bug that can be repaired."""
    NO_TESTS = "no_tests"
    """Nothing was collected, or nothing matches the selection."""
    INTERNAL_ERROR = "internal_error"
    """The framework itself failed."""
    CRASHED = "crashed"
    """The process died outside of any test."""
    TIMED_OUT = "timed_out"
    """The limit of the whole run ended it."""
    WATCHING = "watching"
    """The command waits for file changes instead of ending."""
    IMPORTED_ELSEWHERE = "imported_elsewhere"
    """Modules of the repository were imported from an installed copy outside of it."""

    @property
    def environment(self) -> bool:
        """Whether it lies outside the code under repair."""
        return self in _ENVIRONMENT


_ENVIRONMENT = frozenset(
    {
        RunProblem.FRAMEWORK_MISSING,
        RunProblem.MISSING_DEPENDENCY,
        RunProblem.BROKEN_DEPENDENCY,
        RunProblem.NOT_BUILT,
        RunProblem.USAGE_ERROR,
        RunProblem.COMMAND_NOT_FOUND,
        RunProblem.INTERNAL_ERROR,
        RunProblem.WATCHING,
        RunProblem.IMPORTED_ELSEWHERE,
    }
)


@dataclass(frozen=True)
class Diagnosis:
    """A problem with the sentence that names what is missing or wrong."""

    problem: RunProblem
    detail: str


def _third_party_frame(frame: Sequence[Any]) -> bool:
    path = str(frame[0])
    return not frame[4] and ("site-packages" in path or "dist-packages" in path)


def classify_collection_error(event: Mapping[str, Any]) -> Diagnosis:
    """One collection error: the environment's fault or the code's?

    ``event`` is a ``collection_error`` event from inside (exception, message, frames,
    and for import errors missing, owned, unbuilt, outside).
    """
    exception = str(event.get("exception", ""))
    message = str(event.get("message", "")).split("\n", 1)[0]
    frames: Sequence[Sequence[Any]] = event.get("frames") or ()
    missing = str(event.get("missing", ""))
    where = f" (while collecting {event['path']})" if event.get("path") else ""
    if exception == "ModuleNotFoundError" and missing:
        if event.get("unbuilt"):
            return Diagnosis(RunProblem.NOT_BUILT, f"{missing} has not been generated or compiled{where}")
        if not event.get("owned"):
            return Diagnosis(RunProblem.MISSING_DEPENDENCY, f"No module named '{missing}'{where}")
    if exception == "ImportError" and event.get("outside") and not event.get("owned"):
        return Diagnosis(RunProblem.BROKEN_DEPENDENCY, f"{message}{where}")
    at_import = exception in ("ImportError", "ModuleNotFoundError", "SyntaxError")
    if at_import and frames and _third_party_frame(frames[-1]):
        return Diagnosis(RunProblem.BROKEN_DEPENDENCY, f"{exception}: {message}{where}")
    return Diagnosis(RunProblem.COLLECTION_ERROR_IN_CODE, f"{exception}: {message}{where}")


_INSIDE_KINDS = {
    "framework_missing": RunProblem.FRAMEWORK_MISSING,
    "framework_broken": RunProblem.BROKEN_DEPENDENCY,
    "usage": RunProblem.USAGE_ERROR,
    "configuration": RunProblem.USAGE_ERROR,
}


def reported_problem(kind: str, detail: str) -> Diagnosis:
    """A ``problem`` event from inside."""
    return Diagnosis(_INSIDE_KINDS.get(kind, RunProblem.INTERNAL_ERROR), detail)


def most_important(found: Sequence[Diagnosis]) -> Diagnosis | None:
    """The one to report: environment before code, in the order of ``RunProblem``."""
    order = list(RunProblem)
    return min(found, key=lambda one: order.index(one.problem), default=None)

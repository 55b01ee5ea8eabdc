"""Telling a broken environment from a bug, from the outcome of a test run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ....sandbox.base.errors import EnvironmentBroken
from ..testing.command_report import COMMAND_ID
from .causes import Cause, CauseFinder, Failure
from .model import ProjectEnvironment

if TYPE_CHECKING:
    from ....sandbox.workspace import Workspace
    from ..testing.testrun import TestRun

_UNKNOWN_OPTION: Final = re.compile(r"unrecognized arguments: (.+)|no such option: (\S+)")
_OPTION_PLUGINS: Final = (
    ("--cov", "pytest-cov"),
    ("--numprocesses", "pytest-xdist"),
    ("-n", "pytest-xdist"),
    ("--dist", "pytest-xdist"),
    ("--timeout", "pytest-timeout"),
    ("--asyncio-mode", "pytest-asyncio"),
    ("--reruns", "pytest-rerunfailures"),
    ("--benchmark", "pytest-benchmark"),
    ("--ds", "pytest-django"),
    ("--random-order", "pytest-random-order"),
    ("--mypy", "pytest-mypy"),
    ("--flake8", "pytest-flake8"),
    ("--black", "pytest-black"),
)
_REQUIRED_PLUGINS: Final = re.compile(r"Missing required plugins: (.+)")
_LOG_MODULE: Final = re.compile(
    r"^(?:E\s+)?(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?", re.M
)
_SHOWN: Final = 3


def environment_causes(
    run: TestRun, workspace: Workspace, environment: ProjectEnvironment
) -> dict[str, Cause]:
    """Failing test id or uncollectable path -> what the environment lacks for it.

    Those that may be bugs of the code under repair are not in it.
    """
    finder = CauseFinder(workspace.root, environment)
    found = ((failure.where, finder.cause(failure)) for failure in _failures(run))
    return {where: cause for where, cause in found if cause is not None}


def diagnose(run: TestRun, workspace: Workspace, environment: ProjectEnvironment) -> EnvironmentBroken | None:
    """The error to end with when *everything* that went wrong is the environment's fault.

    None when all is well, or when at least one failure may be a bug that can be repaired.
    """
    failures = _failures(run)
    causes = environment_causes(run, workspace, environment)
    if [failure.where for failure in failures] == [COMMAND_ID]:
        # A plain command names no tests: only its own words can tell.
        cause = causes.get(COMMAND_ID) or _cause_of_whole_run(run, workspace, environment)
        return _broken([cause], 1) if cause is not None else None
    if failures:
        if any(failure.where not in causes for failure in failures):
            return None
        return _broken(list(causes.values()), len(failures))
    if run.report.cases:
        return None
    whole = _cause_of_whole_run(run, workspace, environment)
    if whole is not None:
        return _broken([whole], 0)
    if run.problem is not None and run.problem.environment:
        return EnvironmentBroken(f"the project's tests cannot run here: {run.problem_detail}")
    return None


def _failures(run: TestRun) -> list[Failure]:
    report = run.report
    errors = [
        Failure(error.path, error.exception, error.message, error.frames)
        for error in report.collection_errors
    ]
    cases = [
        Failure(case.id, case.exception, case.message, case.frames, case.output) for case in report.failing()
    ]
    return errors + cases


def _cause_of_whole_run(run: TestRun, workspace: Workspace, environment: ProjectEnvironment) -> Cause | None:
    """The run ended before any test: what its own words say."""
    text = f"{run.problem_detail}\n{run.result.text()}"
    if match := _REQUIRED_PLUGINS.search(text):
        return Cause(f"pytest plugin {match[1].strip()}", f"install it in {environment.python}")
    if match := _UNKNOWN_OPTION.search(text):
        options = match[1] or match[2]
        for option, plugin in _OPTION_PLUGINS:
            if any(word.partition("=")[0].startswith(option) for word in options.split()):
                return Cause(
                    f"pytest plugin {plugin} (option {option})", f"install it in {environment.python}"
                )
    if match := _LOG_MODULE.search(text):
        return CauseFinder(workspace.root, environment).module_cause(match[1])
    return None


def _broken(causes: list[Cause], failures: int) -> EnvironmentBroken:
    distinct = sorted(set(causes), key=lambda cause: (-causes.count(cause), cause.missing))
    named = ", ".join(cause.missing for cause in distinct[:_SHOWN])
    if len(distinct) > _SHOWN:
        named += f" and {len(distinct) - _SHOWN} more"
    count = f" ({failures} tests or files affected)" if failures > 1 else ""
    return EnvironmentBroken(
        f"the project's tests cannot run here: {named} missing{count}", hint=distinct[0].hint
    )

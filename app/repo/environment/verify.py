"""Checking, inside the started sandbox, that the planned environment really can run the tests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ....sandbox.base.errors import EnvironmentBroken
from ....sandbox.base.results import ExecResult
from ....sandbox.protocol import Sandbox, run_to_end
from .dependencies import python_allowed
from .model import ProjectEnvironment
from .project import read_project
from .services import last_line, run_setup

if TYPE_CHECKING:
    from ....sandbox.workspace import Workspace

PROBE_TIMEOUT_S: Final = 60
_PROBE: Final = Path(__file__).with_name("inside.py")
_LIBRARY: Final = re.compile(r"error while loading shared libraries: (\S+):")
_GLIBC: Final = re.compile(r"version `(GLIBC_[\d.]+)' not found")


async def verify_environment(
    environment: ProjectEnvironment, sandbox: Sandbox, workspace: Workspace
) -> ProjectEnvironment:
    """Proves by running it that the interpreter works inside, sees pytest, and takes the code from the copy.

    The set-up commands of a trusted recipe run first, since they may be what makes it so.

    Returns:
        The environment completed with what only the sandbox knows: the interpreter's version,
        and the import path for where the copy appears.

    Raises:
        EnvironmentBroken: naming what is missing.
    """
    workdir = sandbox.spec.workdir
    environment = environment.at(workdir)
    await run_setup(environment, sandbox, workspace)
    question = {"workdir": workdir, "modules": environment.modules, "pytest": environment.needs_pytest}
    argv = [environment.python, "-c", _PROBE.read_text(encoding="utf-8"), json.dumps(question)]
    result = await run_to_end(
        sandbox, argv, env=environment.env, timeout_s=PROBE_TIMEOUT_S, label="check-environment"
    )
    answer = _answer(result)
    if answer is None:
        raise interpreter_failure(environment, result, sandbox)
    if answer["unreadable"]:
        raise EnvironmentBroken(
            f"{answer['unreadable'][0]} cannot be read by the sandbox's user",
            hint="check the permissions of the project's environment",
        )
    elsewhere: Mapping[str, str | None] = answer["elsewhere"]
    if elsewhere:
        name, place = next(iter(elsewhere.items()))
        found = f"is imported from {place}" if place else "cannot be found"
        raise EnvironmentBroken(
            f"module {name} {found}, not from the copy at {workdir}: its tests would test something else",
            hint="remove the editable install or the path entry that points there from the environment",
        )
    if answer["pytest"]:
        raise EnvironmentBroken(
            f"pytest cannot be imported by {environment.python} ({answer['pytest'][:200]})",
            hint="install pytest in the project's environment",
        )
    major, minor, micro = answer["version"]
    version = (int(major), int(minor), int(micro))
    needs = read_project(workspace.root).requires_python()
    if environment.origin == "image" and needs and not python_allowed(needs, version):
        raise EnvironmentBroken(
            f"the image's Python is {major}.{minor}.{micro}; the project needs {needs}",
            hint="give --python with a newer interpreter, or an image that has one",
        )
    return replace(environment, version=version)


def interpreter_failure(
    environment: ProjectEnvironment, result: ExecResult, sandbox: Sandbox
) -> EnvironmentBroken:
    """Why an interpreter that exists on the host did not run inside."""
    text = result.text()
    kind = sandbox.describe().kind
    python = environment.python
    if library := _LIBRARY.search(text):
        return EnvironmentBroken(
            f"{python} needs the shared library {library[1]}, which the {kind} sandbox does not have",
            hint="use an image that has it, or another --sandbox",
        )
    if glibc := _GLIBC.search(text):
        return EnvironmentBroken(
            f"{python} needs {glibc[1]}, newer than the C library in the {kind} sandbox's image",
            hint="use a newer image, or the image's own Python",
        )
    if result.timed_out:
        return EnvironmentBroken(f"{python} did not answer within {PROBE_TIMEOUT_S} s in the {kind} sandbox")
    if "Permission denied" in text:
        return EnvironmentBroken(
            f"{python} cannot be read by the {kind} sandbox's user: {last_line(result)}",
            hint="make the interpreter's directories readable (chmod -R go+rX)",
        )
    if result.exit_code in (126, 127) or "No such file" in text or "not found" in text:
        return EnvironmentBroken(
            f"there is no runnable {python} in the {kind} sandbox: {last_line(result)}",
            hint="give --python with an interpreter that is there",
        )
    if "encodings" in text or "prefix" in text:
        return EnvironmentBroken(
            f"{python} does not find its standard library in the {kind} sandbox: {last_line(result)}",
            hint="its base interpreter was moved or removed; make the environment again",
        )
    return EnvironmentBroken(
        f"{python} does not run in the {kind} sandbox (exit code {result.exit_code}): {last_line(result)}"
    )


def _answer(result: ExecResult) -> dict[str, Any] | None:
    for line in reversed(result.text().splitlines()):
        if line.startswith("{"):
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:
                return None
            return found
    return None

"""Builds with their own test step: CMake's ctest and Maven's surefire, both read from JUnit XML."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from .adapters import DetectResult, RunPlan, RunRequest
from .command_report import junit_cases
from .problems import Diagnosis, RunProblem
from .report import TraceFrame
from .toolchain import Ended, any_of, files_of, source

_CMAKE = "CMakeLists.txt"
_TESTS = re.compile(r"^\s*(?:enable_testing|include\s*\(\s*CTest|add_test)\b", re.MULTILINE | re.IGNORECASE)
_C_ERROR = re.compile(r"^(/?[\w./+-]+\.\w+):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
_CMAKE_ERROR = re.compile(r"^CMake Error(?: at (\S+?):(\d+))?[^\n]*\n((?:.*\n?){0,6})", re.MULTILINE)
_PACKAGE = re.compile(
    r"Could not find a package configuration file provided by \"([^\"]+)\"|Could NOT find (\w+)"
)
_JAVA_ERROR = re.compile(r"^\[ERROR\] (/\S+\.java):\[(\d+),\d+\] (.*)$", re.MULTILINE)
_ARTIFACT = re.compile(
    r"(?:Could not (?:find|resolve|transfer) artifact|Cannot access .* in offline mode and the artifact) (\S+)|Plugin (\S+) or one of its dependencies could not be resolved"
)


@dataclass(frozen=True)
class CtestAdapter:
    """ctest over a build of its own, outside of the repository. ``args``: options of ctest."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "ctest"
    toolchain: ClassVar[tuple[str, ...]] = ("ctest", "cmake", "cc")

    def detect(self, root: Path) -> DetectResult:
        if not (root / _CMAKE).is_file():
            return DetectResult(0)
        for path in files_of(root, lambda name: name == _CMAKE):
            if _TESTS.search(source(root, path)):
                return DetectResult(82, (f"{path} declares tests",))
        return DetectResult(0)

    def plan(self, request: RunRequest) -> RunPlan:
        report = f"{request.base}/{request.name}.xml"
        build = f"{request.base}/cmake-build"
        names: list[str] = []
        if request.selection is not None and not any(one in (_CMAKE, ".") for one in request.selection):
            names = ["-R", any_of(request.selection)]
        limit = f"{max(1, round(request.test_timeout_s))}"
        options = shlex.join([*self.args, *names, "--timeout", limit, "--output-junit", report])
        # The build is kept between runs of one sandbox: only what an edit touches is compiled again.
        script = (
            f"cmake -S . -B {shlex.quote(build)} && cmake --build {shlex.quote(build)} --parallel 2 && "
            f"exec ctest --test-dir {shlex.quote(build)} --output-on-failure {options}"
        )
        shown = shlex.join(["ctest", "--test-dir", "build", "--output-on-failure", *self.args, *names])
        return RunPlan(
            argv=("/bin/sh", "-c", script),
            equivalent=f"cmake -S . -B build && cmake --build build && {shown}",
            env={"CLICOLOR": "0", "CMAKE_COLOR_DIAGNOSTICS": "OFF", "GCC_COLORS": ""},
            report_path=report,
            streams=False,
            read=_read_ctest,
        )


def _read_ctest(ended: Ended) -> Diagnosis | None:
    for case in junit_cases(ended.report, ended.root):
        # A program that runs as a test has no source file: where tests are declared stands for it.
        name = case.id.split("::", 1)[-1]
        ended.add(replace(case, id=name, path=_CMAKE))
    if not ended.gathered.cases:
        log = ended.log()
        cmake = _CMAKE_ERROR.search(log)
        package = _PACKAGE.search(log)
        if cmake and package:
            name = package[1] or package[2]
            return Diagnosis(RunProblem.MISSING_DEPENDENCY, f"CMake does not find {name}")
        errors = [(ended.relative(match[1]), int(match[2]), match[3]) for match in _C_ERROR.finditer(log)]
        undefined = re.findall(r"^.*(?:undefined reference to|cannot find -l).*$", log, re.MULTILINE)
        if errors or undefined or cmake:
            lines = [f"{path}:{line}: {text}" for path, line, text in errors[:10]] + undefined[:5]
            if not lines and cmake:
                lines = [f"{cmake[1] or _CMAKE}: {' '.join(cmake[3].split())[:300]}"]
            frames = tuple(TraceFrame(path, line, "") for path, line, _ in errors[:5])
            ended.broken([_CMAKE], "\n".join(lines), frames)
            return ended.gathered.diagnoses[-1]
        return ended.nothing()
    if ended.result.timed_out:
        return Diagnosis(RunProblem.TIMED_OUT, "the run's time limit ended the command")
    return None


@dataclass(frozen=True)
class MavenAdapter:
    """``mvn test``; reports of surefire. ``args``: options of mvn."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "maven"
    toolchain: ClassVar[tuple[str, ...]] = ("mvn", "java", "javac")

    def detect(self, root: Path) -> DetectResult:
        return DetectResult(85, ("pom.xml",)) if (root / "pom.xml").is_file() else DetectResult(0)

    def plan(self, request: RunRequest) -> RunPlan:
        report = f"{request.base}/{request.name}.xml"
        stamp = f"{request.base}/{request.name}.scratch"
        names: list[str] = []
        if request.selection is not None:
            chosen = ",".join(dict.fromkeys(_maven_name(one) for one in request.selection))
            names = [f"-Dtest={chosen}", "-Dsurefire.failIfNoSpecifiedTests=false", "-DfailIfNoTests=false"]
        shown = ["mvn", "-B", "-o", "-fae", *self.args, *names, "test"]
        script = (
            f": > {shlex.quote(stamp)}; {shlex.join([*shown, '-Dstyle.color=never', '-ntp'])}; code=$?; "
            f"find . -path '*/surefire-reports/TEST-*.xml' -newer {shlex.quote(stamp)} -exec cat {{}} + "
            f"> {shlex.quote(report)}; exit $code"
        )
        return RunPlan(
            argv=("/bin/sh", "-c", script),
            equivalent=shlex.join(shown),
            env={"MAVEN_OPTS": "-Djansi.force=false"},
            report_path=report,
            streams=False,
            read=_read_maven,
        )


def _maven_name(one: str) -> str:
    """``Class#method`` for -Dtest; of a file its class."""
    if one.endswith(".java"):
        return one.rpartition("/")[2].removesuffix(".java")
    name, _, method = one.partition("#")
    plain = re.split(r"[(\[{ ]", method)[0]
    return f"{name}#{plain}" if plain else name


def _read_maven(ended: Ended) -> Diagnosis | None:
    files = {
        path.rpartition("/")[2].removesuffix(".java"): path
        for path in files_of(ended.workspace, lambda name: name.endswith(".java"))
        if "src/test/" in path
    }
    # One document per class, one after the other.
    for document in re.split(rb"(?=<\?xml )", ended.report):
        for case in junit_cases(document, ended.root):
            name, _, method = case.id.partition("::")
            path = files.get(name.rpartition(".")[2].split("$")[0], "")
            ended.add(replace(case, id=f"{name}#{method}" if method else name, path=path))
    log = ended.log()
    if not ended.gathered.cases:
        missing = _ARTIFACT.search(log)
        if missing:
            name = missing[1] or missing[2]
            return Diagnosis(
                RunProblem.MISSING_DEPENDENCY,
                f"{name} is not in the local Maven repository (mvn dependency:go-offline)",
            )
        errors = [(ended.relative(match[1]), int(match[2]), match[3]) for match in _JAVA_ERROR.finditer(log)]
        if errors:
            text = "\n".join(f"{path}:{line}: {what}" for path, line, what in errors[:10])
            frames = tuple(TraceFrame(path, line, "") for path, line, _ in errors[:5])
            ended.broken(sorted(files.values()) or [errors[0][0]], text, frames)
            return ended.gathered.diagnoses[-1]
        return ended.nothing()
    if ended.result.timed_out:
        return Diagnosis(RunProblem.TIMED_OUT, "the run's time limit ended the command")
    return None

"""Go: ``go test -json``. Ids are ``FOLDER::TestName`` and ``FOLDER::TestName/sub``."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from .adapters import DetectResult, RunPlan, RunRequest
from .problems import Diagnosis, RunProblem
from .report import Outcome, TestCase, TraceFrame
from .toolchain import Ended, any_of, failed, files_of, source

_TEST = re.compile(r"^func\s+((?:Test|Example|Fuzz)\w*)\s*\(", re.MULTILINE)
_AT = re.compile(r"^\s*(?:\./)?([\w./-]+\.go):(\d+)(?::\d+)?: (.*)$", re.MULTILINE)
_TRACE = re.compile(r"^\t(/\S+\.go):(\d+)", re.MULTILINE)
_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_MISSING = re.compile(
    r"(?:no required module provides package|cannot find (?:package|module providing package)) \"?([\w./-]+)"
)
_FETCH = re.compile(
    r"^(?:go: )?(\S+?)(?:@\S+)?: (?:.*)(?:dial tcp|lookup |module lookup disabled|connection refused)",
    re.MULTILINE,
)
_OUTCOMES = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}


@dataclass(frozen=True)
class GoAdapter:
    """``args``: options and packages the person gave; packages give way to a selection."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "go"
    toolchain: ClassVar[tuple[str, ...]] = ("go",)

    def detect(self, root: Path) -> DetectResult:
        tests = sum(1 for _ in files_of(root, lambda name: name.endswith("_test.go")))
        if not (root / "go.mod").is_file() and not (root / "go.work").is_file():
            return DetectResult(0)
        return DetectResult(86 if tests else 30, (f"go.mod and {tests} test files",))

    def plan(self, request: RunRequest) -> RunPlan:
        options = [word for word in self.args if word.startswith("-")]
        packages = [word for word in self.args if not word.startswith("-")] or ["./..."]
        names: list[str] = []
        if request.selection is not None:
            folders = (one.split("::")[0] for one in request.selection)
            packages = list(dict.fromkeys(f"./{_folder(one)}" for one in folders))
            if all("::" in one for one in request.selection):
                # Sub-tests are taken with the test that holds them: their names need not be unique.
                names = ["-run", any_of(one.split("::", 1)[1].split("/", 1)[0] for one in request.selection)]
        limit = f"-timeout={max(1, round(request.test_timeout_s * 10))}s"
        argv = ("go", "test", "-json", "-count=1", limit, *options, *names, *packages)
        return RunPlan(
            argv=argv,
            equivalent=shlex.join(["go", "test", "-count=1", *options, *names, *packages]),
            env={
                "GOTOOLCHAIN": "local",
                "GOFLAGS": "-buildvcs=false",
                "GOPROXY": "off",
                "GOTELEMETRY": "off",
            },
            report_path=f"{request.base}/{request.name}.report",
            streams=False,
            read=_read,
        )


def _folder(name: str) -> str:
    return posixpath.dirname(name) if name.endswith(".go") else name.rstrip("/")


def _read(ended: Ended) -> Diagnosis | None:
    module = (_MODULE.search(source(ended.workspace, "go.mod")) or ("", ""))[1]
    places = _places(ended.workspace)
    outputs: dict[tuple[str, str], list[str]] = {}
    finished: list[tuple[str, str, dict[str, Any]]] = []
    packages: dict[str, str] = {}
    plain: list[str] = []
    for line in ended.log().splitlines():
        if not line.startswith("{"):
            plain.append(line)
            continue
        try:
            event = cast("dict[str, Any]", json.loads(line))
        except ValueError:
            plain.append(line)
            continue
        folder = _of_package(str(event.get("Package", "")), module)
        test, action = str(event.get("Test", "")), str(event.get("Action", ""))
        if action in ("output", "build-output"):
            outputs.setdefault((folder, test), []).append(str(event.get("Output", "")))
        elif test and action in _OUTCOMES:
            finished.append((folder, test, event))
        elif not test and action in ("pass", "fail", "skip"):
            packages[folder] = action
    tests = {(folder, test) for folder, test, _ in finished}
    for folder, test, event in finished:
        bad_below = any(other[0] == folder and other[1].startswith(f"{test}/") for other in tests)
        ended.add(
            _case(ended, folder, test, event, "".join(outputs.get((folder, test), [])), places, bad_below)
        )
    everything = "\n".join([*plain, *("".join(text) for (_, test), text in outputs.items() if not test)])
    _crashed(ended, packages, outputs, tests, places)
    return _problem(ended, everything, module, packages, {folder for folder, _ in tests}, places)


def _case(
    ended: Ended,
    folder: str,
    test: str,
    event: dict[str, Any],
    output: str,
    places: dict[tuple[str, str], str],
    parent: bool,
) -> TestCase:
    path = places.get((folder, test.split("/", 1)[0]), "")
    outcome = _OUTCOMES[str(event["Action"])]
    common: dict[str, Any] = {
        "id": f"{folder}::{test}",
        "path": path,
        "duration_s": float(event.get("Elapsed") or 0),
    }
    if outcome is not Outcome.FAILED:
        return TestCase(outcome=outcome, **common)
    found = list(_AT.finditer(output))
    lines = [match[3].strip() for match in found] or [
        line.strip() for line in output.splitlines() if "panic:" in line
    ]
    frames = [
        TraceFrame(posixpath.join(folder, match[1]) if folder != "." else match[1], int(match[2]), test)
        for match in found
    ]
    frames += [
        TraceFrame(
            ended.relative(file), int(line), "", in_repository=not ended.relative(file).startswith("/")
        )
        for file, line in reversed(_TRACE.findall(output))
    ]
    message = "\n".join(lines) or ("a sub-test fails" if parent else "the test failed")
    kind = "panic" if "panic:" in output else "Failed"
    return TestCase(**common, **failed(Outcome.FAILED, message, output), exception=kind, frames=tuple(frames))


def _crashed(
    ended: Ended,
    packages: dict[str, str],
    outputs: dict[tuple[str, str], list[str]],
    tests: set[tuple[str, str]],
    places: dict[tuple[str, str], str],
) -> None:
    """Tests that began and have no end: the process died or was ended in them."""
    for folder, test in outputs:
        if test and (folder, test) not in tests and packages.get(folder) != "pass":
            text = "".join(outputs[folder, test])
            outcome = (
                Outcome.TIMEOUT if "test timed out" in text or ended.result.timed_out else Outcome.CRASHED
            )
            path = places.get((folder, test.split("/", 1)[0]), "")
            fields = failed(outcome, "the test process ended while this test ran", text)
            ended.add(TestCase(id=f"{folder}::{test}", path=path, exception="ProcessDied", **fields))


def _problem(
    ended: Ended,
    text: str,
    module: str,
    packages: dict[str, str],
    ran: set[str],
    places: dict[tuple[str, str], str],
) -> Diagnosis | None:
    missing = _MISSING.search(text) or _FETCH.search(text)
    if missing and not ended.gathered.cases:
        name = missing[1]
        return Diagnosis(
            RunProblem.MISSING_DEPENDENCY, f"the Go module of {name} is not downloaded (go mod download)"
        )
    failed_builds = {folder for folder, action in packages.items() if action == "fail" and folder not in ran}
    failed_builds |= {
        _of_package(name, module)
        for name in re.findall(r"^FAIL\s+(\S+) \[(?:build|setup) failed\]", text, re.MULTILINE)
    }
    for folder in sorted(failed_builds - ran):
        errors = [(match[1], int(match[2]), match[3]) for match in _AT.finditer(text)]
        near = [one for one in errors if posixpath.dirname(one[0]) == folder.removeprefix(".")] or errors
        message = "\n".join(f"{path}:{line}: {what}" for path, line, what in near[:10])
        frames = tuple(TraceFrame(path, line, "") for path, line, _ in near[:5])
        files = sorted({path for (where, _), path in places.items() if where == folder}) or [folder]
        ended.broken(files, message or "the package cannot be built", frames)
    if ended.gathered.collection_errors:
        return ended.gathered.diagnoses[-1]
    if ended.result.timed_out:
        return Diagnosis(RunProblem.TIMED_OUT, "the run's time limit ended the command")
    return None if ended.gathered.cases else ended.nothing()


def _of_package(package: str, module: str) -> str:
    """The folder of a package: ``.`` is the module's own."""
    package = package.split(" ", 1)[0]
    if package == module:
        return "."
    return package.removeprefix(f"{module}/") if module else package


def _places(root: Path) -> dict[tuple[str, str], str]:
    """(folder, test function) -> its file."""
    found: dict[tuple[str, str], str] = {}
    for path in files_of(root, lambda name: name.endswith("_test.go")):
        for name in _TEST.findall(source(root, path)):
            found[posixpath.dirname(path) or ".", name] = path
    return found

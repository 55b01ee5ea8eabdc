"""JavaScript and TypeScript: ``node --test``, vitest and jest, never in watch mode."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from .adapters import DetectResult, RunPlan, RunRequest
from .problems import Diagnosis, RunProblem
from .report import Outcome, TestCase, TraceFrame
from .toolchain import Ended, failed, files_of, json_file, source

_TEST_FILE = re.compile(r"(?:^|[._-])test\.[cm]?[jt]s$|\.spec\.[cm]?[jt]s$|^test-.+\.[cm]?js$")
_STACK = re.compile(r"^\s+at (?:(.+?) \()?((?:file://)?/[^\s()]+?):(\d+):\d+\)?$", re.MULTILINE)
_MISSING = re.compile(
    r"Cannot find (?:package|module) '([^'./][^']*)'|Failed to resolve import \"([^\"./][^\"]*)\""
)
_SEPARATOR = " > "
_QUIET = {"FORCE_COLOR": "0", "NO_COLOR": "1", "npm_config_update_notifier": "false"}

# Runs inside node, version 18.15 and later: one JSON line per finished test.
_REPORTER = b"""
export default async function* reporter(events) {
  for await (const { type, data } of events) {
    if (!['test:start', 'test:pass', 'test:fail'].includes(type)) continue;
    const e = data.details?.error, c = e?.cause ?? e;
    yield JSON.stringify({
      type, name: data.name, nesting: data.nesting, file: data.file, line: data.line, skip: data.skip,
      todo: data.todo, kind: data.details?.type, ms: data.details?.duration_ms, failure: e?.failureType,
      error: c && String(c?.message ?? c), errorName: c?.name, code: c?.code, stack: c && String(c?.stack ?? ''),
    }) + '\\n';
  }
}
"""


def package_scripts(root: Path) -> dict[str, Any]:
    """The scripts of package.json."""
    scripts: Any = json_file(root, "package.json").get("scripts")
    return cast("dict[str, Any]", scripts) if isinstance(scripts, dict) else {}


def _uses(root: Path, package: str, configuration: str) -> DetectResult:
    manifest = json_file(root, "package.json")
    reasons: list[str] = []
    for table in ("dependencies", "devDependencies"):
        listed: Any = manifest.get(table)
        if isinstance(listed, dict) and package in listed:
            reasons.append(f"package.json depends on {package}")
    if package in manifest or any(root.glob(configuration)):
        reasons.append(f"{package} is configured")
    if re.search(rf"\b{package}\b", str(package_scripts(root).get("test", ""))):
        return DetectResult(92, (*reasons, f"the test script runs {package}"))
    return DetectResult(88 if reasons else 0, tuple(reasons))


@dataclass(frozen=True)
class NodeAdapter:
    """``node --test``. ``args``: options and files the person gave; files give way to a selection."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "node"
    toolchain: ClassVar[tuple[str, ...]] = ("node",)

    def detect(self, root: Path) -> DetectResult:
        if re.search(r"\bnode\b.*--test\b", str(package_scripts(root).get("test", ""))):
            return DetectResult(91, ("the test script runs node --test",))
        count = 0
        for path in files_of(root, lambda name: name.endswith((".js", ".mjs", ".cjs"))):
            if re.search(r"""['"]node:test['"]""", source(root, path)):
                count += 1
        return DetectResult(84, (f"{count} files import node:test",)) if count else DetectResult(0)

    def plan(self, request: RunRequest) -> RunPlan:
        report = f"{request.base}/{request.name}.report"
        reporter = f"{request.base}/{request.name}.mjs"
        options = [word for word in self.args if word.startswith("-")]
        words = [word for word in self.args if not word.startswith("-")]
        if request.selection is not None:
            words = list(dict.fromkeys(one.split("::")[0] for one in request.selection))
        argv = (
            "node", "--test", *options, f"--test-reporter={reporter}", f"--test-reporter-destination={report}",
            "--test-reporter=spec", "--test-reporter-destination=stdout", *_names(request), *words,
        )  # fmt: skip
        return RunPlan(
            argv=argv,
            equivalent=shlex.join(["node", "--test", *options, *_names(request), *words]),
            files={reporter: _REPORTER},
            env=_QUIET,
            report_path=report,
            streams=False,
            read=_read_node,
        )


def _names(request: RunRequest) -> list[str]:
    """Patterns for the tests of a selection; none when a whole file is in it."""
    if (
        not request.selection
        or any("::" not in one for one in request.selection)
        or len(request.selection) > 20
    ):
        return []
    names = {part for one in request.selection for part in one.split("::", 1)[1].split(_SEPARATOR)}
    return [
        f"--test-name-pattern=/^{re.escape(name).replace('/', chr(92) + '/')}$/" for name in sorted(names)
    ]


def _read_node(ended: Ended) -> Diagnosis | None:
    names: list[str] = []
    files: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for line in ended.report.decode("utf-8", "replace").splitlines():
        try:
            event = cast("dict[str, Any]", json.loads(line))
        except ValueError:
            continue  # the last line of a process that was killed
        nesting, name = int(event.get("nesting") or 0), str(event.get("name", ""))
        path = ended.relative(str(event.get("file") or ""))
        if event["type"] == "test:start":
            names[nesting:] = [name]
            continue
        if ended.relative(name) == path or (nesting == 0 and _TEST_FILE.search(name) and "/" in name):
            files[ended.relative(name)] = event
            continue
        if event.get("kind") == "suite" or event.get("failure") == "subtestsFailed":
            continue
        above = [one for one in names[:nesting] if ended.relative(one) != path]
        seen.add(path)
        ended.add(_node_case(ended, f"{path}::{_SEPARATOR.join([*above, name])}", path, event))
    missing: list[Diagnosis] = []
    for path, event in files.items():
        if event["type"] == "test:fail" and path not in seen:
            diagnosis = _file_failure(ended, path, _words_of(ended, path, event))
            missing += [diagnosis] if diagnosis else []
    return _conclusion(ended, missing)


def _words_of(ended: Ended, path: str, event: dict[str, Any]) -> str:
    """What a file that could not be loaded said: it is in the output, not in the event."""
    log = ended.log()
    found = re.search(
        r"^(?:.*(?:SyntaxError|ReferenceError|TypeError|Error \[ERR|Error: Cannot find).*)$",
        log,
        re.MULTILINE,
    )
    start = log.find(path)
    near = log[max(0, start) : start + 600] if start >= 0 else ""
    return "\n".join(part for part in (found[0].strip() if found else "", near) if part) or str(
        event.get("error")
    )


def _file_failure(ended: Ended, path: str, text: str) -> Diagnosis | None:
    """A file whose tests did not run: the environment's fault, or the code's (then it is a collection error)."""
    match = _MISSING.search(text)
    if match:
        name = match[1] or match[2]
        return Diagnosis(
            RunProblem.MISSING_DEPENDENCY, f"the package {name} is not installed (needed by {path})"
        )
    ended.broken([path], text or "the file could not be loaded", _frames(ended, text))
    return None


def _conclusion(ended: Ended, missing: list[Diagnosis]) -> Diagnosis | None:
    gathered = ended.gathered
    if missing and not gathered.cases:
        return missing[0]
    if gathered.collection_errors:
        return gathered.diagnoses[-1]
    if ended.result.timed_out:
        return Diagnosis(RunProblem.TIMED_OUT, "the run's time limit ended the command")
    return None if gathered.cases else ended.nothing()


def _node_case(ended: Ended, test_id: str, path: str, event: dict[str, Any]) -> TestCase:
    common: dict[str, Any] = {
        "id": test_id,
        "path": path,
        "line": int(event.get("line") or 0),
        "duration_s": float(event.get("ms") or 0) / 1000,
    }
    if event.get("skip") is not None and event.get("skip") is not False:
        return TestCase(outcome=Outcome.SKIPPED, **common)
    todo = event.get("todo") is not None and event.get("todo") is not False
    if event["type"] == "test:pass":
        return TestCase(outcome=Outcome.XPASSED if todo else Outcome.PASSED, **common)
    stack = str(event.get("stack") or "")
    outcome = Outcome.TIMEOUT if event.get("failure") == "testTimeoutFailure" else Outcome.FAILED
    name = str(
        event.get("code") if event.get("code") == "ERR_ASSERTION" else event.get("errorName") or "Error"
    )
    return TestCase(
        **common,
        **failed(Outcome.XFAILED if todo else outcome, str(event.get("error") or ""), stack),
        exception="AssertionError" if name == "ERR_ASSERTION" else name,
        frames=_frames(ended, stack),
    )


def _frames(ended: Ended, stack: str) -> tuple[TraceFrame, ...]:
    """Frames of a stack trace, outermost first."""
    frames: list[TraceFrame] = []
    for function, path, line in _STACK.findall(stack):
        shown = ended.relative(path)
        inside = not shown.startswith("/") and "node_modules/" not in shown
        frames.append(TraceFrame(shown, int(line), function or "<module>", in_repository=inside))
    return tuple(reversed(frames))


class _JestLike:
    """What vitest and jest share: where they are installed and the shape of their JSON report."""

    @staticmethod
    def chosen(request: RunRequest) -> tuple[list[str], list[str]]:
        """Files and the pattern for names of a selection."""
        if request.selection is None:
            return [], []
        files = list(dict.fromkeys(one.split("::")[0] for one in request.selection))
        if any("::" not in one for one in request.selection) or len(request.selection) > 20:
            return files, []
        names = (one.split("::", 1)[1].replace(_SEPARATOR, " ") for one in request.selection)
        return files, ["-t", "^(" + "|".join(re.escape(name) for name in names) + ")$"]


@dataclass(frozen=True)
class VitestAdapter(_JestLike):
    """vitest, as the repository installs it."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "vitest"
    toolchain: ClassVar[tuple[str, ...]] = ("node",)

    def detect(self, root: Path) -> DetectResult:
        return _uses(root, "vitest", "vitest.config.*")

    def plan(self, request: RunRequest) -> RunPlan:
        report = f"{request.base}/{request.name}.report"
        files, names = self.chosen(request)
        options = [
            word for word in self.args if word.startswith("-") and not word.startswith(("--watch", "-w"))
        ]
        words = files or [word for word in self.args if not word.startswith("-")]
        shown = ["vitest", "run", *options, *words, *names]
        return RunPlan(
            argv=(
                "node", "node_modules/vitest/vitest.mjs", "run", "--watch=false", "--reporter=default",
                "--reporter=json", f"--outputFile.json={report}", *options, *words, *names,
            ),
            equivalent=shlex.join(["npx", *shown]),
            env=_QUIET,
            report_path=report,
            streams=False,
            read=_read_jest,
        )  # fmt: skip


@dataclass(frozen=True)
class JestAdapter(_JestLike):
    """jest, as the repository installs it."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "jest"
    toolchain: ClassVar[tuple[str, ...]] = ("node",)

    def detect(self, root: Path) -> DetectResult:
        return _uses(root, "jest", "jest.config.*")

    def plan(self, request: RunRequest) -> RunPlan:
        report = f"{request.base}/{request.name}.report"
        files, names = self.chosen(request)
        options = [word for word in self.args if word.startswith("-") and not word.startswith("--watch")]
        words = ["--runTestsByPath", *files] if files else [w for w in self.args if not w.startswith("-")]
        cache = f"--cacheDirectory={request.base}/jest-cache"
        return RunPlan(
            argv=(
                "node", "node_modules/jest/bin/jest.js", "--ci", "--watchAll=false", "--json",
                f"--outputFile={report}", "--testLocationInResults", cache, *options, *names, *words,
            ),
            equivalent=shlex.join(["npx", "jest", "--ci", *options, *names, *words]),
            env=_QUIET,
            report_path=report,
            streams=False,
            read=_read_jest,
        )  # fmt: skip


_JEST_OUTCOMES = {
    "passed": Outcome.PASSED,
    "failed": Outcome.FAILED,
    "pending": Outcome.SKIPPED,
    "skipped": Outcome.SKIPPED,
    "todo": Outcome.SKIPPED,
    "disabled": Outcome.SKIPPED,
}


def _read_jest(ended: Ended) -> Diagnosis | None:
    try:
        value: Any = json.loads(ended.report or b"{}")
    except ValueError:
        value = {}
    missing: list[Diagnosis] = []
    for file in cast("dict[str, Any]", value).get("testResults") or ():
        path = ended.relative(str(file.get("name", "")))
        results: list[dict[str, Any]] = file.get("assertionResults") or []
        for result in results:
            ended.add(_jest_case(ended, path, result))
        if not results and file.get("status") == "failed":
            diagnosis = _file_failure(ended, path, str(file.get("message", "")))
            missing += [diagnosis] if diagnosis else []
    if not value and re.search(r"Cannot find module '.*/node_modules/(?:vitest|jest)/", ended.log()):
        name = "vitest" if "/vitest/" in ended.log() else "jest"
        return Diagnosis(
            RunProblem.FRAMEWORK_MISSING, f"{name} is not installed in node_modules (npm install)"
        )
    return _conclusion(ended, missing)


def _jest_case(ended: Ended, path: str, result: dict[str, Any]) -> TestCase:
    outcome = _JEST_OUTCOMES.get(str(result.get("status")), Outcome.ERROR)
    titles = [*cast("list[str]", result.get("ancestorTitles") or []), str(result.get("title", ""))]
    location: Any = result.get("location")
    messages = [str(message) for message in cast("list[Any]", result.get("failureMessages") or [])]
    text = "\n".join(messages)
    head = text.split("\n    at ", 1)[0].strip()
    kind = re.match(r"(\w*Error)\b:? ?", head)
    fields = failed(outcome, head, text) if outcome.bad else {"outcome": outcome}
    return TestCase(
        id=f"{path}::{_SEPARATOR.join(title for title in titles if title)}",
        path=path,
        line=int(location.get("line") or 0) if isinstance(location, dict) else 0,
        duration_s=float(result.get("duration") or 0) / 1000,
        exception=(kind[1] if kind else "Error") if outcome.bad else "",
        frames=_frames(ended, text),
        **fields,
    )

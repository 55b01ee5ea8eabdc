"""Test frameworks: how each is recognised, started and read.

An adapter is data about a framework; the runner owns processes, evidence and limits.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from .problems import Diagnosis
    from .toolchain import Ended

_SKIPPED_FOLDERS = {
    ".git",
    ".hg",
    ".tox",
    ".nox",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    "build",
    "dist",
}
_MAX_FILES_LOOKED_AT = 4000


@dataclass(frozen=True)
class DetectResult:
    """How sure an adapter is (0 to 100) and why."""

    score: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunRequest:
    """What the runner wants of one process."""

    root: str
    """The repository inside the sandbox."""
    python: str
    inside: str
    """Folder of our helpers inside the sandbox."""
    base: str
    """Directory inside the sandbox for this runner's files."""
    name: str
    """Stable name for this request's files."""
    selection: tuple[str, ...] | None = None
    coverage: bool = False
    fail_fast: bool = False
    collect_only: bool = False
    test_timeout_s: float = 60.0
    seed: int = 0
    hash_seed: int = 0
    import_roots: tuple[str, ...] = ()
    survey: bool = True
    """Report at the end where modules came from."""
    observe: tuple[Mapping[str, Any], ...] = ()
    """Places whose values are wanted; see ``inside/values.py``."""


@dataclass(frozen=True)
class RunPlan:
    """One process to start."""

    argv: tuple[str, ...]
    equivalent: str
    """The command a person would type for the same run."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """To be written inside before the start."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    report_path: str = ""
    streams: bool = True
    """True: our helpers write an event stream; False: the output and exit code are all there is."""
    read: Callable[[Ended], Diagnosis | None] | None = None
    """Reads what a tool of another language reported; None: as a plain command."""


class TestAdapter(Protocol):
    """One way of running tests."""

    name: ClassVar[str]

    def detect(self, root: Path) -> DetectResult:
        """Looks at files only; runs nothing of the repository."""
        ...

    def plan(self, request: RunRequest) -> RunPlan: ...


def _python_files(root: Path) -> Iterator[Path]:
    pending = [root]
    seen = 0
    while pending and seen < _MAX_FILES_LOOKED_AT:
        folder = pending.pop()
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            # An unreadable folder has nothing to say about the test framework.
            continue
        for entry in entries:
            if entry.is_symlink():
                continue
            if entry.is_dir():
                if entry.name not in _SKIPPED_FOLDERS:
                    pending.append(entry)
            elif entry.suffix == ".py":
                seen += 1
                yield entry


def _is_test_file(path: Path) -> bool:
    return path.name.startswith("test") or path.stem.endswith(("_test", "_tests"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _body(request: RunRequest, framework: str, args: Sequence[str]) -> dict[str, Any]:
    """The request as the helper inside reads it; the keys are described in ``inside/launch.py``."""
    return {
        "framework": framework,
        "root": request.root,
        "report": f"{request.base}/{request.name}.report",
        "scratch": f"{request.base}/{request.name}.scratch",
        "args": list(args),
        "select": None if request.selection is None else list(request.selection),
        "coverage": request.coverage,
        "fail_fast": request.fail_fast,
        "collect_only": request.collect_only,
        "test_timeout": request.test_timeout_s,
        "seed": request.seed,
        "import_roots": list(request.import_roots),
        "survey": request.survey,
        "observe": list(request.observe),
    }


def _launch(request: RunRequest, framework: str, args: Sequence[str]) -> RunPlan:
    body = _body(request, framework, args)
    path = f"{request.base}/{request.name}.json"
    shown = [*args, *(request.selection or ())]
    words = shown[:20] + ([f"({len(shown) - 20} more)"] if len(shown) > 20 else [])
    return RunPlan(
        argv=(request.python, f"{request.inside}/launch.py", path, framework, *words),
        equivalent=shlex.join(["python", "-m", framework, *words]),
        files={path: json.dumps(body).encode("ascii")},
        report_path=body["report"],
    )


def plan_modules(request: RunRequest, names: Sequence[str]) -> RunPlan:
    """Asks where modules would be imported from; runs none of their own code."""
    return _launch(request, "modules", names)


def launch_request(request: RunRequest, adapter: TestAdapter) -> dict[str, Any]:
    """The request for the fork server, which runs pytest and unittest only.

    Raises:
        ValueError: the adapter runs plain commands.
    """
    match adapter:
        case PytestAdapter() | UnittestAdapter():
            return _body(request, adapter.name, adapter.words(request))
        case _:
            raise ValueError(f"the fork server cannot run {adapter.name} tests")


@dataclass(frozen=True)
class PytestAdapter:
    """pytest 5.4 and later. ``args``: options and paths the person gave; paths give way to a selection."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "pytest"

    def detect(self, root: Path) -> DetectResult:
        reasons: list[str] = []
        score = 0
        configured = (
            ("pytest.ini", ""),
            ("pyproject.toml", "[tool.pytest"),
            ("setup.cfg", "[tool:pytest]"),
            ("tox.ini", "[pytest]"),
        )
        for filename, marker in configured:
            path = root / filename
            if path.is_file() and marker in _text(path):
                score = 95
                reasons.append(f"{filename} configures pytest")
        conftests = imports = tests = 0
        for path in _python_files(root):
            if path.name == "conftest.py":
                conftests += 1
            elif _is_test_file(path):
                tests += 1
                text = _text(path)
                if re.search(r"^\s*(?:import pytest|from pytest)\b", text, re.MULTILINE) or re.search(
                    r"^(?:async )?def test_", text, re.MULTILINE
                ):
                    imports += 1
        if conftests:
            score = max(score, 90)
            reasons.append(f"{conftests} conftest.py")
        if imports:
            score = max(score, 85)
            reasons.append(f"{imports} of {tests} test files are written for pytest")
        elif tests:
            score = max(score, 40)
            reasons.append(f"{tests} test files that pytest can run too")
        return DetectResult(score, tuple(reasons))

    def plan(self, request: RunRequest) -> RunPlan:
        return _launch(request, self.name, self.words(request))

    def words(self, request: RunRequest) -> tuple[str, ...]:
        """Arguments for this request, without the selection."""
        return self.args if request.selection is None else _without_paths(self.args)


@dataclass(frozen=True)
class UnittestAdapter:
    """The standard library's unittest. ``args``: words after ``python -m unittest``."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "unittest"

    def detect(self, root: Path) -> DetectResult:
        count = sum(
            1
            for path in _python_files(root)
            if _is_test_file(path) and re.search(r"\bTestCase\)", _text(path)) is not None
        )
        if not count:
            return DetectResult(0)
        return DetectResult(60, (f"{count} test files with unittest.TestCase",))

    def plan(self, request: RunRequest) -> RunPlan:
        return _launch(request, self.name, self.words(request))

    def words(self, request: RunRequest) -> tuple[str, ...]:
        """Arguments for this request; the selection filters what they find."""
        return self.args


@dataclass(frozen=True)
class CommandAdapter:
    """Any command: judged by its exit code, JUnit XML where it writes one, and traces in its output.

    ``{junit}`` in the command stands for the path of the report; it is also in the
    variable WHIMBREL_JUNIT.
    """

    command: str
    name: ClassVar[str] = "command"

    def detect(self, root: Path) -> DetectResult:
        return DetectResult(0)

    def plan(self, request: RunRequest) -> RunPlan:
        report = f"{request.base}/{request.name}.xml"
        text = self.command.replace("{junit}", shlex.quote(report))
        return RunPlan(
            argv=("/bin/sh", "-c", text),
            equivalent=self.command,
            env={"WHIMBREL_JUNIT": report},
            report_path=report,
            streams=False,
        )


_VALUE_OPTIONS = {"-k", "-m", "-p", "-o", "-c", "-W", "--rootdir", "--deselect", "--ignore", "--import-mode"}


def _without_paths(args: Sequence[str]) -> tuple[str, ...]:
    """Options stay (minus -k and -m, which narrow by other means), positional words go."""
    kept: list[str] = []
    index = 0
    while index < len(args):
        word = args[index]
        index += 1
        if word in _VALUE_OPTIONS and index < len(args):
            if word not in ("-k", "-m", "--deselect"):
                kept.extend((word, args[index]))
            index += 1
        elif word.startswith("-"):
            kept.append(word)
    return tuple(kept)


_PYTHON = re.compile(r"^(?:.*/)?python[0-9.]*$")


def adapter_for_command(command: str) -> TestAdapter:
    """The adapter for what a person or recipe wrote: pytest and unittest are recognised, the rest runs as is.

    A command with shell syntax (``&&``, pipes, variables, redirections) is never taken apart.
    """
    if re.search(r"[;&|<>`$\n(){}*?~]", command.replace("{junit}", "")):
        return CommandAdapter(command)
    try:
        words = shlex.split(command)
    except ValueError:
        return CommandAdapter(command)
    made = _of_other_language(words)
    if made is not None:
        return made
    if words and words[0].rsplit("/", 1)[-1] in ("pytest", "py.test"):
        return PytestAdapter(tuple(words[1:]))
    if len(words) >= 3 and _PYTHON.match(words[0]) and words[1] == "-m":
        if words[2] in ("pytest", "py.test"):
            return PytestAdapter(tuple(words[3:]))
        if words[2] == "unittest":
            return UnittestAdapter(tuple(words[3:]))
    return CommandAdapter(command)


def _of_other_language(words: Sequence[str]) -> TestAdapter | None:
    """The adapter for a plain call of another language's test tool."""
    from .compiled import CtestAdapter, MavenAdapter
    from .golang import GoAdapter
    from .javascript import JestAdapter, NodeAdapter, VitestAdapter
    from .rust import CargoAdapter

    if words[:1] == ["npx"] or words[:2] == ["npm", "exec"]:
        words = [word for word in words[1 if words[0] == "npx" else 2 :] if word != "--"]
    match words:
        case ["node", *rest] if "--test" in rest:
            return NodeAdapter(tuple(word for word in rest if word not in ("--test", "--watch")))
        case ["vitest", *rest]:
            return VitestAdapter(tuple(rest[1:] if rest[:1] in (["run"], ["watch"], ["dev"]) else rest))
        case ["jest", *rest]:
            return JestAdapter(tuple(rest))
        case ["go", "test", *rest]:
            return GoAdapter(tuple(word for word in rest if word not in ("-json", "-v")))
        case ["cargo", "test" | "t", *rest]:
            return CargoAdapter(tuple(rest))
        case ["mvn", *rest] if "test" in rest:
            return MavenAdapter(tuple(word for word in rest if word != "test"))
        case ["ctest", *rest] if "--test-dir" not in rest:
            return CtestAdapter(tuple(rest))
        case _:
            return None


def forkable(adapter: TestAdapter) -> bool:
    """Whether the fork server can run its tests: pytest and unittest."""
    return isinstance(adapter, PytestAdapter | UnittestAdapter)


def adapter_in(root: Path, command: str) -> TestAdapter:
    """``adapter_for_command``, where ``npm test`` means the framework that its script runs."""
    if re.fullmatch(r"(?:npm|pnpm|yarn)(?: run)? (?:t|test)", command.strip()):
        from .javascript import JestAdapter, NodeAdapter, VitestAdapter

        found = [(one, one.detect(root).score) for one in (VitestAdapter(), JestAdapter(), NodeAdapter())]
        best, score = max(found, key=lambda pair: pair[1])
        if score >= 90:
            return best
    return adapter_for_command(command)


def detect_adapter(root: Path) -> tuple[TestAdapter, DetectResult]:
    """The adapter that fits the repository best; pytest when nothing speaks for anything."""
    from .compiled import CtestAdapter, MavenAdapter
    from .golang import GoAdapter
    from .javascript import JestAdapter, NodeAdapter, VitestAdapter
    from .rust import CargoAdapter

    known: list[TestAdapter] = [
        PytestAdapter(),
        UnittestAdapter(),
        VitestAdapter(),
        JestAdapter(),
        NodeAdapter(),
    ]
    known += [GoAdapter(), CargoAdapter(), MavenAdapter(), CtestAdapter()]
    found = [(adapter, adapter.detect(root)) for adapter in known]
    return max(found, key=lambda pair: pair[1].score)

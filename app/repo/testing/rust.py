"""Rust: ``cargo test``, whose stable output is text. Ids are ``TARGET::module::test``, TARGET a source file."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .adapters import DetectResult, RunPlan, RunRequest
from .problems import Diagnosis, RunProblem
from .report import Outcome, TestCase, TraceFrame
from .toolchain import Ended, failed

_RUNNING = re.compile(r"^\s+Running (?:unittests )?(\S+)(?: \(.*)?$")
_DOC = re.compile(r"^\s+Doc-tests (\S+)")
_TEST = re.compile(
    r"^test (.+?)(?: - should panic(?: with .*)?)? \.\.\. (ok|FAILED|ignored)(?:,.*)?(?: <[\d.]+s>)?$"
)
_DOC_NAME = re.compile(r"^(\S+\.rs) - (.+ )?\(line (\d+)\)")
_HEAD = re.compile(r"^---- (.+) stdout ----$")
_PANIC = re.compile(
    r"panicked at (?:'(?P<old>.*)', )?(?P<path>[^\s:']+\.rs):(?P<line>\d+):\d+:?\n?(?P<new>(?:(?!note: ).*\n?)*)"
)
_COULD_NOT = re.compile(
    r"could not compile `([^`]+)` \((lib test|lib|bin \"([^\"]+)\"(?: test)?|test \"([^\"]+)\")\)"
)
_ERROR = re.compile(
    r"^error(?:\[E\d+\])?: (?!could not compile)(.+)\n\s+--> ([^\s:]+):(\d+):\d+", re.MULTILINE
)
_MISSING = re.compile(
    r"no matching package named `([^`]+)` found|failed to (?:get|download) `([^`]+)`", re.MULTILINE
)


@dataclass(frozen=True)
class CargoAdapter:
    """``args``: options after ``cargo test``."""

    args: tuple[str, ...] = ()
    name: ClassVar[str] = "cargo"
    toolchain: ClassVar[tuple[str, ...]] = ("cargo", "rustc", "cc")

    def detect(self, root: Path) -> DetectResult:
        if not (root / "Cargo.toml").is_file():
            return DetectResult(0)
        return DetectResult(86, ("Cargo.toml",))

    def plan(self, request: RunRequest) -> RunPlan:
        own, _, after = (
            " ".join(self.args).partition("--") if "--" in self.args else (" ".join(self.args), "", "")
        )
        options = shlex.split(own)
        targets: list[str] = []
        names: list[str] = []
        if request.selection is not None:
            targets = list(
                dict.fromkeys(word for one in request.selection for word in _target(one.split("::")[0]))
            )
            if all("::" in one for one in request.selection) and "--doc" not in targets:
                names = ["--exact", *(one.split("::", 1)[1] for one in request.selection)]
        shown = ["cargo", "test", "--no-fail-fast", *options, *targets, "--", *names, *shlex.split(after)]
        return RunPlan(
            argv=(*shown[:2], "--offline", "--color=never", *shown[2:], "--color=never"),
            equivalent=shlex.join(shown),
            env={
                "CARGO_TARGET_DIR": f"{request.base}/cargo-target",
                "CARGO_TERM_COLOR": "never",
                "CARGO_TERM_PROGRESS_WHEN": "never",
                "RUST_BACKTRACE": "0",
            },
            report_path=f"{request.base}/{request.name}.report",
            streams=False,
            read=_read,
        )


def _target(path: str) -> list[str]:
    """The options that choose the target with this source file."""
    if path.startswith("doc-tests "):
        return ["--doc"]
    if path.startswith("tests/"):
        name = path.removeprefix("tests/").removesuffix("/main.rs").removesuffix(".rs")
        return ["--test", name]
    if path == "src/main.rs" or path.startswith("src/bin/"):
        return ["--bins"]
    return ["--lib"] if path.startswith("src/") else []


def _read(ended: Ended) -> Diagnosis | None:
    log = ended.log()
    target, details, current = "", _details(log), ""
    for line in log.splitlines():
        if match := _RUNNING.match(line):
            target = ended.relative(match[1])
        elif match := _DOC.match(line):
            target = f"doc-tests {match[1]}"
        elif target and (match := _TEST.match(line)):
            current = match[1]
            ended.add(_case(ended, target, current, match[2], details.get(current, "")))
    missing = _MISSING.search(log)
    if missing and not ended.gathered.cases:
        name = missing[1] or missing[2]
        return Diagnosis(RunProblem.MISSING_DEPENDENCY, f"the crate {name} is not downloaded (cargo fetch)")
    _not_compiled(ended, log)
    if ended.gathered.collection_errors:
        return ended.gathered.diagnoses[-1]
    if ended.result.timed_out:
        return Diagnosis(RunProblem.TIMED_OUT, "the run's time limit ended the command")
    return None if ended.gathered.cases else ended.nothing()


def _case(ended: Ended, target: str, name: str, word: str, detail: str) -> TestCase:
    doc = _DOC_NAME.match(name)
    path = doc[1] if doc else target
    outcome = {"ok": Outcome.PASSED, "ignored": Outcome.SKIPPED}.get(word, Outcome.FAILED)
    if outcome is not Outcome.FAILED:
        return TestCase(id=f"{target}::{name}", outcome=outcome, path=path)
    panic = _PANIC.search(detail)
    message = ((panic["old"] or panic["new"] or "").strip() if panic else "") or "the test failed"
    frames = (TraceFrame(ended.relative(panic["path"]), int(panic["line"]), name),) if panic else ()
    return TestCase(
        id=f"{target}::{name}",
        path=path,
        exception="panic" if panic else "Failed",
        frames=frames,
        **failed(Outcome.FAILED, message, detail),
    )


def _details(log: str) -> dict[str, str]:
    """Test name -> what it printed, from the section of failures."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in log.splitlines():
        if match := _HEAD.match(line):
            name = match[1].removesuffix(" - should panic")
            found.setdefault(name, [])
        elif line == "failures:":
            name = ""
        elif name:
            found[name].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def _not_compiled(ended: Ended, log: str) -> None:
    errors = [(match[1], ended.relative(match[2]), int(match[3])) for match in _ERROR.finditer(log)]
    message = "\n".join(f"{path}:{line}: {text}" for text, path, line in errors[:10])
    frames = tuple(TraceFrame(path, line, "") for _, path, line in errors[:5])
    targets: dict[str, None] = {}
    for match in _COULD_NOT.finditer(log):
        if match[4]:
            targets[f"tests/{match[4]}.rs"] = None
        elif match[3] and not (ended.workspace / "src" / "lib.rs").is_file():
            targets["src/main.rs"] = None
        else:
            targets["src/lib.rs"] = None
    broken = [
        path for path in targets if not any(case.path == path for case in ended.gathered.cases.values())
    ]
    if broken:
        ended.broken(broken, message or "the crate cannot be compiled", frames)

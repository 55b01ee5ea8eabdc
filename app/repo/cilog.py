"""Reads a failing CI log: which tests failed, with which traces, started by which command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .foreign_paths import PathIndex
from .stacktrace import Trace, parse_traces, plain_lines


@dataclass(frozen=True)
class FailedTest:
    """A test that a log reports as failed."""

    id: str
    """As pytest or unittest take it, with paths mapped to the repository where possible."""
    kind: str
    """failed or error."""
    message: str = ""
    framework: str = "pytest"


@dataclass(frozen=True)
class CiLog:
    """What a failing log says."""

    tests: tuple[FailedTest, ...] = ()
    broken_files: tuple[str, ...] = ()
    """Test files or modules that could not be collected."""
    traces: tuple[Trace, ...] = ()
    commands: tuple[str, ...] = ()
    """Test commands the log shows, in order."""

    def ids(self) -> tuple[str, ...]:
        return tuple(test.id for test in self.tests)


_SUMMARY = re.compile(r"^(?P<kind>FAILED|ERROR) (?:collecting )?(?P<rest>\S.*\.py(?:::.*|\s.*)?)$")
_PROGRESS = re.compile(
    r"^(?:\[gw\d+\] \[ *\d+%\] )?(?:(?P<before>FAILED|ERROR) )?"
    r"(?P<id>\S+\.py::.+?)(?: (?P<after>FAILED|ERROR)\b.*)?$"
)
_UNITTEST = re.compile(
    r"^(?P<kind>FAIL|ERROR): (?P<name>\S+) \((?P<where>[\w.<>]+)\)(?P<sub>(?: [(\[].*)?)\s*$"
)
_UNITTEST_MODULE = re.compile(
    r"^ERROR: (?P<name>[\w.]+) \(unittest\.loader\.(?:_FailedTest|ModuleImportFailure)"
)
_COMMAND = re.compile(
    r"^(?:##\[group\])?(?:Run |\+ |\$ |> |\[command\])(?P<command>\S.*)$",
)
_TEST_WORDS = re.compile(
    r"\b(?:pytest|py\.test|unittest|tox|nox|nose2|manage\.py test|make (?:test|check)\w*)\b"
)


def _end_of_id(text: str) -> int:
    """Length of the id in ``path::name[a - b] - message``: up to the " - " behind the parameters."""
    at = text.find(" - ")
    while at >= 0:
        if "[" not in text[:at] or text[:at].endswith("]"):
            return at
        at = text.find(" - ", at + 1)
    return len(text)


def _mapped(test_id: str, index: PathIndex) -> str:
    path, colons, rest = test_id.partition("::")
    return (index.find(path) or path.replace("\\", "/")) + colons + rest


def dotted_as_pytest(dotted: str, files: Iterable[str]) -> str | None:
    """``tests.test_x.TestY.test_z`` as ``tests/test_x.py::TestY::test_z`` when that file exists."""
    parts = dotted.split(".")
    known = set(files)
    for length in range(len(parts), 0, -1):
        tail = "/".join(parts[:length]) + ".py"
        for file in sorted(known, key=len):
            if file == tail or file.endswith("/" + tail):
                return "::".join([file, *parts[length:]])
    return None


def read_ci_log(text: str, files: Iterable[str] = ()) -> CiLog:
    """Reads a log of pytest or unittest, from any CI system.

    Args:
        text: the whole log.
        files: the repository's files, to map paths of the CI machine to.
    """
    index = PathIndex(files)
    tests: dict[str, FailedTest] = {}
    broken: dict[str, None] = {}
    commands: dict[str, None] = {}
    for line in plain_lines(text):
        _read_line(line.rstrip(), index, tests, broken, commands)
    return CiLog(tuple(tests.values()), tuple(broken), parse_traces(text, index), tuple(commands))


def _read_line(
    line: str,
    index: PathIndex,
    tests: dict[str, FailedTest],
    broken: dict[str, None],
    commands: dict[str, None],
) -> None:
    module = _UNITTEST_MODULE.match(line)
    if module:
        broken[module["name"]] = None
        return
    summary = _SUMMARY.match(line)
    if summary:
        _summary(summary, index, tests, broken)
        return
    unittest = _UNITTEST.match(line)
    if unittest:
        _unittest(unittest, tests)
        return
    progress = _PROGRESS.match(line)
    if progress and (progress["before"] or progress["after"]):
        kind = "failed" if (progress["before"] or progress["after"]) == "FAILED" else "error"
        test_id = _mapped(progress["id"], index)
        tests.setdefault(test_id, FailedTest(test_id, kind))
        return
    command = _COMMAND.match(line)
    text = command["command"] if command else line
    shown = command or re.match(r"^(?:python[\d.]* -m )?(?:pytest|tox|nox)\b", text)
    if shown and _TEST_WORDS.search(text) and len(text) < 400 and not text.startswith(("pytest-", "tox:")):
        commands[text] = None


def _summary(
    match: re.Match[str], index: PathIndex, tests: dict[str, FailedTest], broken: dict[str, None]
) -> None:
    rest = match["rest"]
    end = _end_of_id(rest)
    test_id, message = rest[:end].strip(), rest[end + 3 :]
    if "::" not in test_id:
        if " " not in test_id:
            broken[_mapped(test_id, index)] = None
        return
    test_id = _mapped(test_id, index)
    kind = "failed" if match["kind"] == "FAILED" else "error"
    tests[test_id] = FailedTest(test_id, kind, message)


def _unittest(match: re.Match[str], tests: dict[str, FailedTest]) -> None:
    name, where = match["name"], match["where"]
    whole = name in ("setUpClass", "setUpModule", "tearDownClass", "tearDownModule")
    test_id = where if whole or where.endswith("." + name) else f"{where}.{name}"
    kind = "failed" if match["kind"] == "FAIL" else "error"
    tests.setdefault(test_id, FailedTest(test_id, kind, match["sub"].strip(), framework="unittest"))

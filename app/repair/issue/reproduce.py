"""Makes a failing test of an issue: runs its snippets, writes tests, keeps those that fail as stated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ....sandbox.base.errors import ToolError
from ....sandbox.workspace import Workspace
from ....sandbox.workspace.names import is_test_path
from ...repo.foreign_paths import PathIndex
from ...repo.testing.report import Outcome, TestCase, TestReport
from ...repo.testing.runner import TestRunner
from .checks import Check, Hypothesis, Judgement, choose, short
from .corpus import SourceText, read_sources
from .judging import judge_snippet
from .names import free_names
from .namespace import Namespace
from .probe import probe, selection_of
from .reading import IssueText, read_issue_text
from .snippets import Snippet, collect_snippets
from .testfile import Rendered, folder_of_tests, heading, module_path, render

_BUILTIN_ERRORS = frozenset(
    name for name, value in vars(__import__("builtins")).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)  # fmt: skip
_NOT_RAISED = ("Failed", "AssertionError")


@dataclass(frozen=True)
class IssueTest:
    """A test module that fails on the present code for the reason the issue states."""

    path: str
    text: str
    targets: tuple[str, ...]
    """Ids of the tests in it that fail now."""
    reasons: tuple[str, ...]
    """Per target: what the code does and what the issue expects."""
    origins: tuple[str, ...]
    """Per target: what in the issue it was made of (code, session, sentence, traceback, test)."""
    line: int
    """Of the issue, 1-based, where the first of them stands."""
    weak: bool
    """The issue names only an exception that must not come, not what should be instead."""


@dataclass(frozen=True)
class Attempt:
    """What came of an issue: a test, or why there is none."""

    test: IssueTest | None
    remarks: tuple[str, ...] = ()
    """One line for each thing in the issue that could be tried."""


@dataclass
class _Run:
    workspace: Workspace
    tests: TestRunner
    issue: IssueText
    issue_text: str
    report: TestReport
    namespace: Namespace
    folder: str = ""
    remarks: list[str] = field(default_factory=list[str])

    @property
    def framework(self) -> str:
        return self.tests.adapter.name


async def reproduce_issue(
    workspace: Workspace, tests: TestRunner, issue_text: str, report: TestReport
) -> Attempt:
    """Tries to turn an issue into a failing test; when it can, the test lies in the workspace.

    Args:
        report: of the whole suite on the tree as it is: where the tests live, how they are named.

    Raises:
        EnvironmentBroken, SandboxDied: as ``TestRunner.run``.
    """
    if tests.adapter.name not in ("pytest", "unittest"):
        return Attempt(
            None, ("the tests run by a command of the project's own, so no test can be added to them",)
        )
    files = await workspace.files()
    texts = read_sources(workspace.root, files)
    issue = read_issue_text(issue_text, PathIndex(files))
    snippets = collect_snippets(issue)
    if not snippets:
        return Attempt(None, ("the issue holds no code, session or call that could be run",))
    namespace = Namespace(texts, tests.environment.import_roots)
    run = _Run(workspace, tests, issue, issue_text, report, namespace)
    run.folder = _folder(run, snippets, texts, files)
    ready = [pair for snippet in snippets if (pair := _runnable(run, snippet)) is not None]
    given = [pair for pair in ready if pair[0].origin == "test"]
    for snippet, imports in given:
        found = await _given_test(run, snippet, imports)
        if found is not None:
            return Attempt(found, tuple(run.remarks))
    others = [pair for pair in ready if pair[0].origin != "test"]
    if not others:
        return Attempt(None, tuple(run.remarks))
    judgements = await _judged(run, others)
    hypotheses = [each for each in choose(judgements) if _importable(run, each)]
    found = await _accepted(run, hypotheses) if any(not each.holds for each in hypotheses) else None
    return Attempt(found, tuple(dict.fromkeys(run.remarks)))


# ---------------------------------------------------------------- what can be run


def _folder(run: _Run, snippets: Sequence[Snippet], texts: Iterable[SourceText], files: Sequence[str]) -> str:
    modules: list[str] = []
    for snippet in snippets:
        modules += [match[1] or match[2] for match in _IMPORTED.finditer(snippet.source)]
        lines, _ = run.namespace.resolve(free_names(snippet.source), run.issue_text)
        modules += [match[1] or match[2] for match in _IMPORTED.finditer("\n".join(lines))]
    held = {source.path: source.text for source in texts if is_test_path(source.path)}
    folder = folder_of_tests(run.report, modules, held)
    if not run.report.cases:
        folder = "tests" if any(path.startswith("tests/") for path in files) else ""
    return folder


_IMPORTED = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+([\w.]+))", re.MULTILINE)


def _runnable(run: _Run, snippet: Snippet) -> tuple[Snippet, tuple[str, ...]] | None:
    """The snippet as far as all its names are known, with the imports it lacks; None: nothing of it is."""
    imports, unknown = run.namespace.resolve(free_names(snippet.source), run.issue_text)
    if unknown:
        missing = frozenset(unknown)
        at = next((k for k, step in enumerate(snippet.steps) if free_names(step.source) & missing), 0)
        run.remarks.append(f"{_called(snippet)}: {', '.join(unknown[:3])} is defined nowhere")
        if not at or snippet.origin == "test":
            return None
        snippet = replace(snippet, steps=snippet.steps[:at], outputs=())
        imports, _ = run.namespace.resolve(free_names(snippet.source), run.issue_text)
    return snippet, imports


def _called(snippet: Snippet) -> str:
    what = {
        "code": "code",
        "session": "session",
        "sentence": "call",
        "traceback": "traceback",
        "test": "test",
    }
    return f"the {what[snippet.origin]} on line {snippet.line} of the issue"


async def _judged(run: _Run, pairs: Sequence[tuple[Snippet, tuple[str, ...]]]) -> list[Judgement]:
    observed = await probe(run.workspace, run.tests, pairs, run.folder)
    judgements: list[Judgement] = []
    for (snippet, _), seen in zip(pairs, observed, strict=True):
        judgement = judge_snippet(snippet, seen, run.issue.errors)
        judgements.append(judgement)
        if not any(not each.holds for each in judgement.hypotheses):
            run.remarks += [f"{_called(snippet)}: {remark}" for remark in judgement.remarks[:3]]
    return judgements


def _needs(run: _Run, each: Hypothesis) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(import lines, names that nobody knows) of one test."""
    names = set(free_names("\n".join([*each.setup, each.target])))
    if each.check is Check.RAISES and each.expected.rpartition(".")[2] not in _BUILTIN_ERRORS:
        bound = any(re.search(rf"\b{re.escape(each.expected)}\b", line) for line in each.setup)
        names |= set() if bound else {each.expected.rpartition(".")[2]}
    return run.namespace.resolve(names, run.issue_text)


def _importable(run: _Run, each: Hypothesis) -> bool:
    _, unknown = _needs(run, each)
    if unknown and not each.holds:
        run.remarks.append(f"{short(each.target)}: {unknown[0]} is defined nowhere")
    return not unknown


# ---------------------------------------------------------------- the test itself


async def _accepted(run: _Run, hypotheses: Sequence[Hypothesis]) -> IssueTest | None:
    """The module with those tests that fail as the issue says (and the examples that hold)."""
    path = module_path(run.issue_text, run.report, run.folder)
    for _ in range(3):
        rendered = _rendered(run, hypotheses)
        cases, broken = await _run_module(run, path, rendered.text)
        if broken:
            run.remarks.append(f"the test made of the issue does not load: {broken}")
            break
        kept: list[Hypothesis] = []
        targets: list[str] = []
        for each, name in zip(hypotheses, rendered.names, strict=True):
            case = cases.get(name)
            why = _refused(each, case, path)
            if not why and case is not None:
                kept.append(each)
                if not each.holds:
                    targets.append(case.id)
            elif not each.holds:
                run.remarks.append(f"{short(each.target)}: {why}")
        failing = [each for each in kept if not each.holds]
        if not failing:
            break
        if len(kept) == len(hypotheses):
            origins = [each.snippet.origin if each.snippet else "" for each in failing]
            lines = [each.line for each in failing if each.line]
            return IssueTest(
                path, rendered.text, tuple(targets), tuple(each.reason for each in failing), tuple(origins),
                min(lines, default=0), all(each.strength == 1 for each in failing),
            )  # fmt: skip
        hypotheses = kept
    run.workspace.resolve(path).unlink(missing_ok=True)
    return None


def _rendered(run: _Run, hypotheses: Sequence[Hypothesis]) -> Rendered:
    return render(
        hypotheses,
        framework=run.framework,
        title=run.issue.title,
        quote=_quote(run, hypotheses),
        imports=[_needs(run, each)[0] for each in hypotheses],
    )


def _quote(run: _Run, hypotheses: Sequence[Hypothesis]) -> str:
    """The lines of the issue that the tests rest on."""
    wanted = sorted({each.line for each in hypotheses if each.line and not each.holds})
    lines = run.issue.split.lines
    quoted = [lines[number - 1].strip()[:90] for number in wanted if number <= len(lines)]
    return "\n".join(line for line in dict.fromkeys(quoted) if not _TELLS_NOTHING.match(line))


_TELLS_NOTHING = re.compile(r"^\s*$|^#|^[`~]{3}|.*Traceback \(most recent call last\)")


async def _run_module(run: _Run, path: str, text: str) -> tuple[dict[str, TestCase], str]:
    """(cases by their bare names, why the module could not be collected)."""
    run.workspace.write(path, text.encode("utf-8"))
    result = await run.tests.run(selection_of(run.tests, path), purpose="issue reproduction")
    broken = [error for error in result.report.collection_errors if error.path in (path, "")]
    if broken or not result.report.cases:
        error = broken[0] if broken else None
        return {}, f"{error.exception}: {error.message}"[
            :200
        ] if error else result.problem_detail or "no test ran"
    cases: dict[str, TestCase] = {}
    for case in result.report.cases:
        if case.path in (path, ""):
            cases[re.split(r"::|\.", case.id.partition("[")[0])[-1]] = case
    return cases, ""


def _refused(each: Hypothesis, case: TestCase | None, path: str) -> str:
    """Why a test's outcome does not show what the issue says; empty when it does."""
    if case is None:
        return "the test did not run"
    if each.holds:
        return "" if case.outcome is Outcome.PASSED else "it does not hold"
    if case.outcome is not Outcome.FAILED:
        return (
            "the test passes" if case.outcome is Outcome.PASSED else f"the test ended as {case.outcome.value}"
        )
    raised = case.exception.rpartition(".")[2]
    inside = [frame.path for frame in case.frames if frame.in_repository]
    if each.check is Check.RAISES and not each.fails_with:
        return "" if raised in _NOT_RAISED else f"the test ends with {raised}"
    if raised != each.fails_with:
        return f"the test ends with {raised}, not with {each.fails_with}"
    if raised == "AssertionError" and each.check is not Check.QUIET and inside and inside[-1] != path:
        return "an assertion of the project failed, not the test's"
    return ""


async def _given_test(run: _Run, snippet: Snippet, imports: Sequence[str]) -> IssueTest | None:
    """The issue brings its own test: it is taken as it is, when it fails by an assertion or as stated."""
    if run.framework == "unittest" and "TestCase" not in snippet.source:
        run.remarks.append(f"{_called(snippet)}: it is written for pytest, and the project uses unittest")
        return None
    path = module_path(run.issue_text, run.report, run.folder)
    lead = [*imports, "", ""] if imports else []
    text = "\n".join([*heading(run.issue.title, ""), *lead, snippet.text, ""])
    cases, broken = await _run_module(run, path, text)
    stated = {error.exception.rpartition(".")[2] for error in run.issue.errors}
    failing = [case for case in cases.values() if case.outcome.bad]
    right = [case for case in failing if _fails_by_itself(case, path) or _fails_as_stated(case, path, stated)]
    if broken or not failing or len(right) < len(failing):
        why = broken or (
            "it passes" if not failing else f"it fails with {failing[0].exception}: not as stated"
        )
        run.remarks.append(f"{_called(snippet)}: {why}")
        run.workspace.resolve(path).unlink(missing_ok=True)
        return None
    return IssueTest(
        path, text, tuple(case.id for case in right),
        tuple(f"the issue's own test fails: {short(case.message or case.exception)}" for case in right),
        tuple("test" for _ in right), snippet.line, weak=False,
    )  # fmt: skip


def _fails_by_itself(case: TestCase, path: str) -> bool:
    inside = [frame.path for frame in case.frames if frame.in_repository]
    name = case.exception.rpartition(".")[2]
    return case.outcome is Outcome.FAILED and name in _NOT_RAISED and (not inside or inside[-1] == path)


def _fails_as_stated(case: TestCase, path: str, stated: set[str]) -> bool:
    inside = [frame.path for frame in case.frames if frame.in_repository]
    name = case.exception.rpartition(".")[2]
    return case.outcome is Outcome.FAILED and name in stated and bool(inside) and inside[-1] != path


def remove_test(workspace: Workspace, test: IssueTest) -> None:
    """Takes the module out of the workspace again.

    Raises:
        ToolError: the path does not lead into the copy any more.
    """
    try:
        workspace.resolve(test.path).unlink(missing_ok=True)
    except OSError as error:
        raise ToolError(f"{test.path} cannot be removed: {error.strerror}") from error

"""Mutants that tests catch, with their real test results and coverage, kept as data on disk.

A mutant changes nothing for tests that never reach its lines, so only those that do are run
again; the others keep the coverage of the run without the mutation.
"""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from whimbrel.app.repair.baseline import Baseline
from whimbrel.app.repair.source import ModuleSource
from whimbrel.app.repo.testing.report import TestReport
from whimbrel.sandbox.workspace.names import is_test_path

from .libraries import Library, set_up
from .mutate import Mutation, sample
from .runs import case_data, case_from, coverage_data, coverage_from, run_tests

_MOST_TESTS = 600
"""A mutant that more tests reach is left out: it costs too much to run, and is of the easy kind."""
_SUITE_LIMIT_S = 300.0
_MUTANT_LIMIT_S = 60.0


@dataclass(frozen=True)
class Mutant:
    """A caught mutation, and what the localiser would be given."""

    library: str
    mutation: Mutation
    sources: dict[str, bytes]
    """The files of the mutated project by path."""
    baseline: Baseline


def collect(
    library: Library, folder: Path, count: int, seed: int, python: str, tell: Callable[[str], None]
) -> None:
    """Fills ``folder/data/NAME`` up to ``count`` caught mutants; what is there already stays."""
    data = folder / "data" / library.name
    root, interpreter = set_up(library, folder, python)
    data.mkdir(parents=True, exist_ok=True)

    def run(at: Path, select: list[str] | None, limit_s: float):
        return run_tests(
            at, interpreter, import_root=library.root, arguments=[*library.arguments, *(library.tests if select is None else ())],
            select=select, coverage=True, limit_s=limit_s,
        )  # fmt: skip

    clean_path = data / "clean.json.gz"
    if not clean_path.exists():
        first, second = run(root, None, _SUITE_LIMIT_S), run(root, None, _SUITE_LIMIT_S)
        steady = first.report.passing_ids() & second.report.passing_ids()
        if not steady:
            tell(f"{library.name}: its tests do not run here: {first.report.collection_errors[:1]}")
            return
        _write(
            clean_path,
            {
                "passing": sorted(steady),
                "cases": [case_data(case) for case in first.report.cases if case.id in steady],
                "coverage": coverage_data({t: f for t, f in first.report.coverage.items() if t in steady}),
            },
        )
        tell(f"{library.name}: {len(steady)} steady tests")
    clean = _read(clean_path)
    passing = frozenset(clean["passing"])
    coverage = coverage_from(clean["coverage"])
    reached: dict[tuple[str, int], set[str]] = {}
    for test, files in coverage.items():
        for path, lines in files.items():
            for line in lines:
                reached.setdefault((path, line), set()).add(test)
    package = root / library.package
    paths = [package] if package.is_file() else sorted(package.rglob("*.py"))
    if package.with_suffix(".py").is_file() and not package.exists():
        paths = [package.with_suffix(".py")]
    sources = [
        ModuleSource(path.relative_to(root).as_posix(), path.read_bytes())
        for path in paths
        if not is_test_path(path.relative_to(root).as_posix())
    ]
    copy = folder / "work" / library.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy)
    by_path = {source.path: source for source in sources}
    kept = len(list(data.glob("mutant-*.json.gz")))
    last = max((int(p.name[7:12]) for p in data.glob("mutant-*.json.gz")), default=-1)
    started, tried = time.monotonic(), 0
    for number, mutation in enumerate(sample(sources, 20 * count, seed)):
        if kept >= count:
            break
        if number <= last:
            continue
        tests = sorted(
            {t for line in mutation.touched for t in reached.get((mutation.path, line), ())} & passing
        )
        if not tests or len(tests) > _MOST_TESTS:
            continue
        tried += 1
        source = by_path[mutation.path]
        target = copy / mutation.path
        target.write_bytes(source.encode(mutation.apply(source.text)))
        ran = run(copy, tests, _MUTANT_LIMIT_S)
        target.write_bytes(source.encode(source.text))
        failing = [case for case in ran.report.failing() if case.id in passing]
        if not failing or ran.report.collection_errors or not ran.ended:
            continue
        _write(
            data / f"mutant-{number:05}.json.gz",
            {
                "mutation": asdict(mutation),
                "cases": [case_data(case) for case in ran.report.cases if case.id in passing],
                "coverage": coverage_data({t: f for t, f in ran.report.coverage.items() if t in passing}),
            },
        )
        kept += 1
    tell(f"{library.name}: {kept} mutants caught, {tried} run in {time.monotonic() - started:.0f} s")


def load(library: Library, folder: Path) -> Iterator[Mutant]:
    """The kept mutants in their order."""
    data = folder / "data" / library.name
    if not (data / "clean.json.gz").exists():
        return
    (root,) = [path for path in (folder / "projects" / library.name).iterdir() if path.is_dir()]
    clean = _read(data / "clean.json.gz")
    clean_cases = {each["id"]: case_from(each) for each in clean["cases"]}
    clean_coverage = coverage_from(clean["coverage"])
    sources = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.py"))}
    for path in sorted(data.glob("mutant-*.json.gz")):
        kept = _read(path)
        values = kept["mutation"]
        mutation = Mutation(
            **{**values, "lines": tuple(values["lines"]), "touched": tuple(values["touched"])}
        )
        cases = {**clean_cases, **{each["id"]: case_from(each) for each in kept["cases"]}}
        coverage = {**clean_coverage, **coverage_from(kept["coverage"])}
        report = TestReport(cases=tuple(cases.values()), coverage=coverage)
        source = ModuleSource(mutation.path, sources[mutation.path])
        wrong = source.encode(mutation.apply(source.text))
        baseline = Baseline(
            tree="", report=report, failing=report.failing(), broken=(), passing=report.passing_ids(), flaky=(),
            duration_s=1.0, ledger_row=0,
        )  # fmt: skip
        yield Mutant(library.name, mutation, {**sources, mutation.path: wrong}, baseline)


def _write(path: Path, value: object) -> None:
    partial = path.with_suffix(".part")
    partial.write_bytes(gzip.compress(json.dumps(value).encode(), 5))
    partial.replace(path)


def _read(path: Path):
    return json.loads(gzip.decompress(path.read_bytes()))

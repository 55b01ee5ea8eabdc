"""Repair by search, from failing tests to a verified patch in the workspace."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...sandbox.base.errors import ToolError
from ...sandbox.workspace.names import is_test_path
from ..tools.base import Progress, ToolContext
from ..tools.repair import INTERRUPTED, SCRATCH
from .baseline import Baseline, take_baseline
from .behaviour import Behaviour
from .candidates import Candidate
from .choice import Choice, choose, literals_of
from .diffs import patch_of
from .explain import explain
from .hunt import hunt, prepare, single_edits
from .language.ordering import in_order
from .limits import Clock, Limits
from .localise import Localisation, localise, out_of_reach
from .minimise import minimise
from .proof import Proof, proof_s, prove
from .search import Search, SearchState
from .source import ModuleSource
from .trust import belief, support
from .validate import Validator
from .workspace_edit import keep

_MOST_PROOFS = 4
_MOST_ALTERNATIVES = 5
_RANKING_SHARE = 0.25
"""Of the time for the search; a model that needs more has no say."""


@dataclass
class _Run:
    """One repair in progress."""

    baseline: Baseline
    sources: Mapping[str, ModuleSource]
    state: SearchState
    phases: dict[str, float] = field(default_factory=dict[str, float])
    behaviour: Behaviour = field(default_factory=Behaviour)
    modes: Mapping[str, int] = field(default_factory=dict[str, int])
    workers: int = 0
    """Candidates that were tried at a time."""
    ranker: str = "none: not asked yet"
    """The language model that had a say in the order, or why none had."""
    ranked: Sequence[Candidate] = ()
    """The plausible ones in order, once that is known."""
    proven: list[tuple[Candidate, Proof]] = field(default_factory=list[tuple[Candidate, Proof]])

    def best_so_far(self) -> list[dict[str, Any]]:
        """What is proven, then what passes, else what goes half the way."""
        proofs = {id(candidate): proof for candidate, proof in self.proven}
        found = [candidate for candidate, _ in self.proven]
        found += [each for each in self.ranked or self.state.plausible if id(each) not in proofs]
        if not found:
            found = [each.candidate for each in sorted(self.state.partial, key=lambda each: -len(each.green))]
        return [self.patch(each, proofs.get(id(each))) for each in found[:_MOST_ALTERNATIVES]]

    def patch(
        self, candidate: Candidate, proof: Proof | None, other_than: Candidate | None = None
    ) -> dict[str, Any]:
        difference = self.behaviour.difference(candidate, other_than) if other_than is not None else ""
        return {
            "diff": patch_of(candidate, self.sources),
            "path": candidate.path,
            "line": candidate.line,
            "family": candidate.family,
            "explanation": explain(candidate, self.sources, self.baseline),
            "verified": proof is not None and proof.good,
            "ledger_rows": list(proof.rows) if proof else [],
            "difference": difference,
            "score": round(candidate.score, 4),
            "passing_tests": support(candidate, self.baseline),
        }

    def result(
        self,
        status: str,
        patches: Sequence[dict[str, Any]],
        alternatives: Sequence[dict[str, Any]] = (),
        confidence: float = 0.0,
    ) -> dict[str, Any]:
        return {
            "status": status,
            "confidence": confidence,
            "limit": self.state.ended_by,
            "candidates_tried": self.state.tried,
            "candidates_generated": self.state.generated,
            "patches": list(patches),
            "alternatives": list(alternatives),
            "modes": dict(sorted(self.modes.items())),
            "workers": self.workers,
            "ranker": self.ranker,
            "phases": {name: round(seconds, 3) for name, seconds in self.phases.items()},
        }


async def repair(
    context: ToolContext, tests: Sequence[str] = (), limits: Limits | None = None
) -> dict[str, Any]:
    """Searches for an edit that turns the failing tests green and breaks nothing.

    When the status is ``fixed`` the patch is in the workspace; otherwise the workspace is as
    before. On cancellation the best so far lies in ``context.scratch[SCRATCH]`` and the
    cancellation goes on.

    Returns:
        The ``repair`` tool's data (documented in app/tools/repair.py).

    Raises:
        ToolError: nothing fails.
        EnvironmentBroken: the tests cannot run.
    """
    limits = limits or Limits()
    begun = time.monotonic()
    context.progress(Progress("locate", "running the tests with coverage"))
    whole = await take_baseline(context)
    # What the run is about comes first: a failing test that nobody asked about blocks no patch.
    baseline = whole.narrowed(context.target_tests).narrowed(tests)
    if not baseline.targets:
        flaky = f"; flaky: {', '.join(whole.flaky[:3])}" if whole.flaky else ""
        raise ToolError(f"no test fails, so there is nothing to repair{flaky}")
    hopeless = out_of_reach(baseline)
    if hopeless:
        shown = ", ".join(hopeless[:3])
        context.progress(
            Progress("locate", f"left out, because they run none of the project's code: {shown}")
        )
        baseline = baseline.narrowed([each for each in baseline.targets if each not in hopeless])
    localisation = localise(context, baseline)
    run = _Run(baseline, localisation.sources, SearchState())
    run.phases["locate_s"] = time.monotonic() - begun
    _tell_located(context, localisation)
    clock = Clock.start(limits, context.deadline, proof_s(baseline))
    try:
        context.scratch[SCRATCH] = await _search_and_prove(context, run, localisation, limits, clock)
    except asyncio.CancelledError:
        context.scratch[SCRATCH] = run.result(INTERRUPTED, run.best_so_far())
        raise
    return context.scratch[SCRATCH]


async def _search_and_prove(
    context: ToolContext, run: _Run, localisation: Localisation, limits: Limits, clock: Clock
) -> dict[str, Any]:
    started = time.monotonic()
    ground = await prepare(context, localisation, run.baseline, clock)
    candidates = await single_edits(ground, run.baseline, context.seed)
    run.phases["generate_s"] = time.monotonic() - started
    started = time.monotonic()
    ordering = await in_order(candidates, run.sources, _RANKING_SHARE * (clock.search_until - started))
    run.ranker = ordering.ranker
    run.state.hurried = ordering.out_of_time
    run.phases["rank_s"] = time.monotonic() - started

    def report(state: SearchState) -> None:
        found = f", {len(state.plausible)} plausible" if state.plausible else ""
        context.progress(
            Progress(
                "patch",
                f"{state.tried} of {state.generated} candidates tried{found}",
                min(1.0, state.tried / max(1, min(state.generated, limits.max_candidates))),
                {"tried": state.tried, "total": state.generated, "plausible": len(state.plausible)},
            )
        )

    run.state.generated = len(candidates)
    started = time.monotonic()
    validator = await _open_validator(context, run.baseline)
    try:
        search = Search(run.sources, run.baseline, validator, run.state, report)
        await hunt(context, ordering.candidates, ground, search, validator, run.state, limits, clock)
        run.state.plausible[:] = [ordering.plain(each) for each in run.state.plausible]
        choice = await _choose(context, run, validator)
        if choice.ranked:
            smallest = await minimise(choice.ranked[0], search.passes)
            choice = replace(choice, ranked=(smallest, *choice.ranked[1:]))
    finally:
        run.modes, run.workers = validator.modes, validator.workers
        run.phases["validate_s"] = time.monotonic() - started
        await validator.close()
    # Tests may have rewritten files of the project while candidates ran.
    await context.workspace.restore(run.baseline.tree)
    report(run.state)
    return await _conclude(context, run, choice, clock)


async def _choose(context: ToolContext, run: _Run, validator: Validator) -> Choice:
    """The order of the plausible patches, once what they do has been compared."""
    literals = _literals(context, run.baseline)
    believed = partial(belief, baseline=run.baseline)
    choice = choose(run.state.plausible, run.sources, literals, believed=believed)
    if len(choice.ranked) > 1:
        context.progress(Progress("patch", f"comparing what {len(choice.ranked)} plausible patches do"))
        run.behaviour = await validator.compare(choice.ranked, _project_files(run.baseline))
        choice = choose(run.state.plausible, run.sources, literals, run.behaviour, believed)
    return choice


def _project_files(baseline: Baseline) -> list[str]:
    """Files of the project that tests ran, without the tests."""
    paths = {path for files in baseline.coverage.values() for path in files}
    return sorted(path for path in paths if not is_test_path(path))


async def _conclude(context: ToolContext, run: _Run, choice: Choice, clock: Clock) -> dict[str, Any]:
    """Proves the best patches in fresh processes and applies the one that holds."""
    started = time.monotonic()
    run.ranked, proven = choice.ranked, run.proven
    wanted = 2 if choice.ambiguous or choice.doubtful else 1
    for candidate in choice.ranked[:_MOST_PROOFS]:
        places = " and ".join(f"{part.path}:{part.line}" for part in candidate.parts)
        context.progress(Progress("verify", f"proving {places} in fresh processes"))
        proof = await prove(context, run.sources, candidate, run.baseline, clock)
        if proof.good:
            proven.append((candidate, proof))
        if len(proven) >= wanted:
            break
    run.phases["verify_s"] = time.monotonic() - started
    if not proven:
        return run.result("not_fixed", run.best_so_far())
    shown = {id(candidate) for candidate, _ in proven}
    candidate, proof = proven[0]
    # Patches that do the same are no alternatives.
    left = [
        each for each in choice.ranked if id(each) not in shown and not run.behaviour.same(candidate, each)
    ]
    others = [run.patch(each, None, candidate) for each in left[:_MOST_ALTERNATIVES]]
    if choice.doubtful or (choice.ambiguous and len(proven) > 1):
        rivals = [run.patch(each, its, candidate) for each, its in proven[1:]]
        return run.result("ambiguous", [run.patch(candidate, proof)], [*rivals, *others], choice.confidence)
    keep(context.workspace, run.sources, candidate)
    return run.result("fixed", [run.patch(candidate, proof)], others, choice.confidence)


async def _open_validator(context: ToolContext, baseline: Baseline) -> Validator:
    validator = await Validator.open(context.tests, baseline)
    if validator.note:
        context.progress(Progress("patch", validator.note))
    return validator


def _tell_located(context: ToolContext, localisation: Localisation) -> None:
    if localisation.locations:
        place = localisation.locations[0]
        text = f"most suspicious: {place.function} at {place.path}:{place.line}"
    else:
        text = "no suspicious line found"
    data = [
        {"path": each.path, "line": each.line, "score": each.score} for each in localisation.locations[:5]
    ]
    context.progress(Progress("locate", text, 1.0, data))


def _literals(context: ToolContext, baseline: Baseline) -> frozenset[str]:
    """Constants in the source of the failing tests."""
    found: frozenset[str] = frozenset()
    for case in baseline.failing:
        name = case.id.rpartition("::")[2].partition("[")[0].rpartition(".")[2]
        try:
            text = context.workspace.read(case.path).decode("utf-8", "replace")
            tree = ast.parse(text)
        except (ToolError, SyntaxError, ValueError):
            continue  # no source, no constants to beware of
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                found |= literals_of(ast.get_source_segment(text, node) or "")
    return found

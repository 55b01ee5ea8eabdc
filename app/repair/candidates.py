"""From suspicious lines to a ranked list of candidate edits."""

from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .evidence import Evidence
from .families import all_families
from .family import Family, Harm, Proposal
from .knowledge import Knowledge
from .localise import Localisation
from .scope import ModuleView
from .source import Edit, ModuleSource, apply_edits, overlapping
from .values import RuntimeValues

_LEAST_SUSPICION = 0.02
_SIZE_COST = 0.06
_AWAY_FROM_THE_FAULT = 0.92
_HARM_COST: Mapping[Harm, float] = {Harm.PRECISE: 1.0, Harm.LOOSENS: 0.95, Harm.REMOVES: 0.8}


@dataclass(frozen=True)
class Part:
    """What a candidate does to one file: ``line`` to ``end_line`` of the original are touched."""

    path: str
    line: int
    end_line: int
    edits: tuple[Edit, ...]
    fault: str


@dataclass(frozen=True)
class Candidate:
    """An edit of one file, or of several.

    ``score`` orders the search; ``line`` is the first changed line of the original. ``path``, ``line``,
    ``end_line``, ``edits`` and ``fault`` are those of the first file, by name.
    """

    path: str
    line: int
    end_line: int
    edits: tuple[Edit, ...]
    family: str
    fault: str
    description: str
    harm: Harm
    score: float
    others: tuple[Part, ...] = ()
    """What is done to further files."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """All files with their edits, the first one first."""
        return (Part(self.path, self.line, self.end_line, self.edits, self.fault), *self.others)

    @property
    def by_path(self) -> dict[str, list[tuple[int, int, str]]]:
        """Path -> ``(start, end, text)`` of each edit, as the processes that try candidates want them."""
        return {part.path: [(each.start, each.end, each.text) for each in part.edits] for part in self.parts}

    def with_parts(self, parts: Iterable[Part]) -> Candidate:
        """The same candidate with other edits; at least one part."""
        first, *others = sorted(parts, key=lambda part: part.path)
        return replace(
            self,
            path=first.path,
            line=first.line,
            end_line=first.end_line,
            edits=first.edits,
            fault=first.fault,
            others=tuple(others),
        )

    def text(self, source: ModuleSource) -> str:
        """The whole text of one of the files with its edits; ``source`` is that file."""
        (part,) = (part for part in self.parts if part.path == source.path)
        return apply_edits(source.text, part.edits)


def generate(
    localisation: Localisation,
    evidence: Evidence,
    seed: int = 0,
    knowledge: Knowledge | None = None,
    values: RuntimeValues | None = None,
    unwanted: Callable[[], bool] = lambda: False,
) -> list[Candidate]:
    """All candidates, likeliest first; equal texts only once. ``seed`` only orders exact ties.

    ``unwanted`` is asked now and then; once it says so, what there is by then is given.

    ``knowledge`` holds the project's expressions; without it each file knows its own.
    ``values``: what was observed at ``values.places_of(localisation.lines)``, for types.
    """
    best: dict[tuple[str, tuple[Edit, ...]], Candidate] = {}
    for path in sorted(localisation.lines):
        source = localisation.sources[path]
        view = ModuleView(source, evidence, knowledge, values)
        for candidate in _of_file(view, localisation.lines[path], all_families(), unwanted):
            key = (path, _shortest(source.text, candidate.edits))
            if key not in best or candidate.score > best[key].score:
                best[key] = candidate
    return sorted(best.values(), key=lambda each: _order(each, seed))


def _of_file(
    view: ModuleView,
    suspicion: Mapping[int, float],
    families: Sequence[Family],
    unwanted: Callable[[], bool],
) -> Iterator[Candidate]:
    source = view.source
    for node in ast.walk(source.tree):
        if unwanted():
            return
        level = _suspicion_of(node, source, suspicion)
        if level < _LEAST_SUSPICION or not source.editable(node):
            continue
        for family in families:
            boost = max((family.boosts.get(name, 1.0) for name in view.evidence.raised), default=1.0)
            for proposal in family.propose(node, view):
                if not overlapping(proposal.edits):
                    yield _candidate(source, family, proposal, level * boost, view.evidence)


def _suspicion_of(node: ast.AST, source: ModuleSource, suspicion: Mapping[int, float]) -> float:
    line = getattr(node, "lineno", None)
    if line is None:
        if not isinstance(node, ast.comprehension):
            return 0.0
        line = node.target.lineno
    return suspicion.get(int(line), 0.0)


def _candidate(
    source: ModuleSource, family: Family, proposal: Proposal, level: float, evidence: Evidence
) -> Candidate:
    edits = tuple(sorted(proposal.edits))
    harm = family.harm if proposal.harm is None else proposal.harm
    size = sum(abs(len(edit.text) - (edit.end - edit.start)) + 1 for edit in edits)
    cost = 1.0 + _SIZE_COST * math.log1p(size)
    line = source.line_of(edits[0].start)
    if family.at_fault and evidence.raised_at and (source.path, line) not in evidence.raised_at:
        # A guard where the exception arose protects every caller, one in a caller only that one.
        level *= _AWAY_FROM_THE_FAULT
    return Candidate(
        path=source.path,
        line=line,
        end_line=source.line_of(max(edits[-1].start, edits[-1].end - 1)),
        edits=edits,
        family=family.name,
        fault=family.fault,
        description=proposal.description,
        harm=harm,
        score=level * family.prior * proposal.weight * _HARM_COST[harm] / cost,
    )


def _shortest(text: str, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits without common prefixes and suffixes: equal results compare equal."""
    short: list[Edit] = []
    for edit in edits:
        old, new = text[edit.start : edit.end], edit.text
        front = 0
        while front < min(len(old), len(new)) and old[front] == new[front]:
            front += 1
        back = 0
        while back < min(len(old), len(new)) - front and old[-1 - back] == new[-1 - back]:
            back += 1
        if len(old) + len(new) > front + back:
            new_text = new[front : len(new) - back]
            short.append(Edit(edit.start + front, edit.end - back, new_text))
    return tuple(short)


def _order(candidate: Candidate, seed: int) -> tuple[float, str, str, int, str]:
    tie = hashlib.sha256(f"{seed}:{candidate.description}".encode()).hexdigest() if seed else ""
    return (-round(candidate.score, 9), tie, candidate.path, candidate.edits[0].start, candidate.description)

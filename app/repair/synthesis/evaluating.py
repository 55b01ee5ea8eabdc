"""Experiments through the search's own validator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..candidates import Candidate
from ..family import Harm
from ..source import Edit, ModuleSource
from ..validate import Validator
from ..workspace_edit import encodable
from .search import Evaluate
from .writing import FAMILY


def through(validator: Validator, sources: Mapping[str, ModuleSource]) -> Evaluate:
    """An ``evaluate`` for ``synthesise``: all tests in one stage of one trial, ended by the first bad one."""

    async def evaluate(path: str, edits: tuple[Edit, ...], tests: Sequence[str]) -> bool:
        source = sources[path]
        line = source.line_of(edits[0].start)
        experiment = Candidate(path, line, line, edits, FAMILY, "", "", Harm.PRECISE, 0.0)
        if not encodable(sources, experiment):
            return False
        return (await validator.trial(experiment, sources, [validator.stage(tests)])).good

    return evaluate

"""The ``repair`` tool: repair by search.

Data::

    {"status": "fixed|not_fixed|ambiguous|interrupted",
     "limit": "candidates" | "time" | null,      which limit ended the search
     "candidates_tried": int, "candidates_generated": int,
     "patches": [{"diff", "path", "line", "family", "explanation", "verified", "ledger_rows": [int],
                  "difference",                  a call on which it differs from the first patch, or ""
                  "score", "passing_tests"}],    its rank in the search; passing tests through its lines
     "confidence": 0 to 1,                       see app/repair/choice.py
     "modes": {"swap|import|fork|fresh": trials},   how candidates were tried, see app/repair/validate.py
     "workers": int,                             how many at a time; the outcome does not depend on it
     "ranker": str,                              language model with a say in the order, or "none: " why
     "alternatives": [same], "phases": {"locate_s", "generate_s", "rank_s", "validate_s", "verify_s"}}

``fixed``: the first patch is verified and applied to the workspace. ``ambiguous``: patches
and alternatives pass every test and cannot be told apart, or the only one is of a kind that passes
by chance too often (``confidence``); nothing is applied. ``not_fixed``:
``patches`` holds best attempts, none verified, none applied.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult

if TYPE_CHECKING:
    from ..repair.limits import Limits

SCRATCH = "repair"
"""``ToolContext.scratch`` key under which the latest result lies, also after a cancellation."""
INTERRUPTED = "interrupted"


class RepairArguments(ToolArguments):
    tests: list[str] = Field(
        default_factory=list, description="Ids of failing tests to turn green; empty: all that fail."
    )
    max_candidates: int = Field(default=4000, ge=1, description="Edits to try at most.")
    max_seconds: float = Field(default=240.0, gt=0, description="Seconds to search at most.")

    def limits(self, wanted: int | None) -> Limits:
        """The bounds of the search; ``wanted`` is the person's own number of edits.

        With it only the end of the whole run ends a search by the clock, so that its result
        does not depend on how fast the machine is.
        """
        from ..repair.limits import Limits

        if wanted is None:
            return Limits(max_candidates=self.max_candidates, max_seconds=self.max_seconds)
        given = self.model_fields_set
        return Limits(
            max_candidates=min(wanted, self.max_candidates) if "max_candidates" in given else wanted,
            max_seconds=self.max_seconds if "max_seconds" in given else math.inf,
        )


class RepairTool:
    name: ClassVar[str] = "repair"
    arguments: ClassVar[type[ToolArguments]] = RepairArguments
    permission: ClassVar[PermissionClass] = PermissionClass.WRITE

    async def run(self, context: ToolContext, arguments: RepairArguments) -> ToolResult:
        """Searches; see ``app/repair``. Raises ToolError where the tests run without Python."""
        if not context.tests.environment.python:
            raise ToolError(
                f"the search repairs Python code only, and these tests run with {context.tests.adapter.name}",
                hint="edit the code",
            )
        from ..repair.repairer import repair

        data = await repair(context, arguments.tests, arguments.limits(context.max_candidates))
        return ToolResult(_text(data), data)


def _text(data: dict[str, Any]) -> str:
    tried = f"{data['candidates_tried']} of {data['candidates_generated']} candidates tried"
    ending = f"; ended by the {data['limit']} limit" if data["limit"] else ""
    lines = [f"{data['status']}: {tried}{ending}."]
    for title, patches in (("", data["patches"]), ("Alternative: ", data["alternatives"])):
        for patch in patches:
            state = "verified" if patch["verified"] else "not verified in fresh processes"
            differs = f" Differs: {patch['difference']}." if patch["difference"] else ""
            lines += [f"{title}{patch['explanation']} ({state}){differs}", patch["diff"]]
    return "\n".join(lines)

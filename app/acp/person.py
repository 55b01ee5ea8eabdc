"""The person behind an editor: permission requests and questions of a run become requests of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acp import helpers
from acp.schema import AllowedOutcome, PermissionOption, ToolCallUpdate

from ..agent.events import PermissionAnswer, PermissionRequest
from ..tools.base import Question
from .updates import kind_of, title_of

_ALLOW = PermissionAnswer(allowed=True)
_ANSWERS = {
    "allow": _ALLOW,
    "allow-run": PermissionAnswer(allowed=True, remember=True),
    "allow-always": PermissionAnswer(allowed=True, remember=True, store=True),
}
_OPTIONS = (
    PermissionOption(option_id="allow", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="allow-run", name="Allow this exact call for the turn", kind="allow_always"),
    PermissionOption(
        option_id="allow-always", name="Always allow this exact call in this repository", kind="allow_always"
    ),
    PermissionOption(option_id="deny", name="Deny", kind="reject_once"),
)


@dataclass(frozen=True)
class EditorPerson:
    """Asks through one editor's connection, for one session."""

    client: Any
    session_id: str

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        """The editor's answer; whatever is no clear yes is a no."""
        parts = [f"{each.decision}: {each.shown} ({each.reason})" for each in request.parts]
        call = ToolCallUpdate(
            tool_call_id=request.call_id,
            title=title_of(request.tool, request.arguments),
            kind=kind_of(request.tool, request.permission),
            status="pending",
            raw_input=request.arguments,
            content=[helpers.tool_content(helpers.text_block("\n".join([request.reason, *parts])))],
        )
        chosen = await self._choose(call, _OPTIONS)
        return _ANSWERS.get(chosen, PermissionAnswer(allowed=False))

    async def question(self, question: Question) -> str:
        """The chosen answer; empty where there is nothing to choose from: editors ask no open questions."""
        if not question.options:
            return ""
        call = ToolCallUpdate(
            tool_call_id="question", title=question.text[:200], kind="other", status="pending"
        )
        call.content = [helpers.tool_content(helpers.text_block(question.text))]
        options = [
            PermissionOption(option_id=str(number), name=text, kind="allow_once")
            for number, text in enumerate(question.options)
        ]
        chosen = await self._choose(
            call, [*options, PermissionOption(option_id="none", name="No answer", kind="reject_once")]
        )
        return dict(enumerate(question.options)).get(int(chosen), "") if chosen.isdecimal() else ""

    async def apply(self, call_id: str, files: Sequence[str], diff: str, evidence: str) -> bool:
        """Whether what a turn changed goes into the person's files."""
        named = ", ".join(files[:5]) + (" ..." if len(files) > 5 else "")
        call = ToolCallUpdate(
            tool_call_id=call_id,
            title=f"put the changes into your files: {named}",
            kind="edit",
            status="pending",
            content=[helpers.tool_content(helpers.text_block(f"{evidence}\n\n```diff\n{diff}\n```"))],
        )
        options = (
            PermissionOption(option_id="apply", name="Apply", kind="allow_once"),
            PermissionOption(option_id="leave", name="Leave my files as they are", kind="reject_once"),
        )
        return await self._choose(call, options) == "apply"

    async def _choose(self, call: ToolCallUpdate, options: Sequence[PermissionOption]) -> str:
        answer = await self.client.request_permission(
            session_id=self.session_id, tool_call=call, options=list(options)
        )
        return answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else ""

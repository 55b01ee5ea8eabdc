"""When the same thing fails again, one concrete suggestion to do something else, added to the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from ...engine.chat import ToolResultPart
from ..tools.base import PermissionClass
from .failure_kinds import fields
from .history import Call
from .limits import Limit

__all__ = ["Strategy"]

_EDITS = frozenset({"edit", "multi_edit", "apply_patch", "write"})
_AGAIN = 2
_EDITS_IN_VAIN = 3


class Strategy(Limit):
    """Never speaks on a success, and says each thing once until it has worked in between.

    Args:
        tools: names of the tools the model has; none other is suggested.
    """

    name = "strategy"

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)
        self._failed: Counter[str] = Counter()
        self._edits: Counter[str] = Counter()
        """Path -> successful edits since the tests were last green."""

    def after_call(self, call: Call, permission: PermissionClass | None, result: ToolResultPart) -> str:
        data = fields(result)
        if result.name in _EDITS:
            return self._after_edit(result, data)
        if result.name == "run_tests":
            return self._after_tests(result, data)
        if result.name == "search":
            empty = not result.is_error and data.get("total_lines") == 0
            return self._counted("search", empty, _AGAIN, self._other_terms())
        if result.name == "bash":
            advice = "set background and poll the handle, give a larger timeout_s, or run less at once"
            return self._counted("bash-time", bool(data.get("timed_out")), _AGAIN, advice)
        return ""

    def _counted(self, key: str, failed: bool, at: int, advice: str) -> str:
        """The advice when ``key`` has failed ``at`` times since it last worked."""
        if not failed:
            self._failed.pop(key, None)
            return ""
        self._failed[key] += 1
        return f"[{self._failed[key]} times now: {advice}.]" if self._failed[key] == at else ""

    def _after_edit(self, result: ToolResultPart, data: dict[str, Any]) -> str:
        if not result.is_error:
            changed = [data] if "path" in data else data.get("files", [])
            for file in changed:
                self._edits[str(file.get("path", ""))] += 1
                for reason in ("not_found", "ambiguous"):
                    self._failed.pop(f"{reason} {file.get('path', '')}", None)
            return ""
        path, reason = str(data.get("path", "")), data.get("reason")
        if reason == "not_found" and path:
            advice = f"read {path} again and copy the text from there, or make the piece to replace smaller"
            return self._counted(f"not_found {path}", True, _AGAIN, advice)
        if reason == "ambiguous" and path:
            advice = "take in the line of the def or class above it, so that only one place fits"
            return self._counted(f"ambiguous {path}", True, _AGAIN, advice)
        return ""

    def _after_tests(self, result: ToolResultPart, data: dict[str, Any]) -> str:
        if result.is_error:
            return ""
        if not data.get("tests") and not data.get("collection_errors"):
            self._edits.clear()
            return ""
        path, edits = max(self._edits.items(), key=lambda item: item[1], default=("", 0))
        if edits < _EDITS_IN_VAIN:
            return ""
        self._edits.clear()
        ways: list[str] = []
        if "locate" in self._tools:
            ways.append("locate shows which other places the failing tests run through")
        if "repair" in self._tools:
            ways.append("repair searches for a small edit by itself")
        if "bash" in self._tools:
            ways.append(f"`git checkout -- {path}` puts the file back")
        advice = "; ".join(ways) or "begin again from what the failing test asserts"
        return f"[Still failing after {edits} edits of {path}. The cause may be elsewhere: {advice}.]"

    def _other_terms(self) -> str:
        ways = ["use a shorter or another word, ignore_case, or fixed for plain text"]
        if "symbols" in self._tools:
            ways.append("symbols finds definitions by name")
        if "glob" in self._tools:
            ways.append("glob finds files")
        return "nothing found; " + "; ".join(ways)

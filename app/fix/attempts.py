"""What was tried in a run, for its result; filled from events, never from texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..agent.events import StepStarted, ToolFinished
from ..tools.repair import INTERRUPTED, SCRATCH
from .result import FixResult


@dataclass
class AttemptLog:
    """What was tried, for the result; filled from tool results' data, never from their text."""

    located: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    diffs: dict[str, str] = field(default_factory=dict[str, str])
    search: dict[str, Any] = field(default_factory=dict[str, Any])
    context: dict[str, Any] = field(default_factory=dict[str, Any])
    explanation: str = ""
    ambiguous: bool = False
    tiers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def see_step(self, event: StepStarted) -> None:
        self.tiers.append({"step": event.step, "tier": event.effort, "reason": event.reason})

    def see(self, event: ToolFinished) -> None:
        data = cast("dict[str, Any]", event.data) if isinstance(event.data, dict) else {}
        if event.name == "locate" and data.get("locations"):
            self.located = list(data["locations"])[:20]
        elif event.name == "repair" and data.get("status"):
            self._see_repair(data)
        elif event.name in ("edit", "multi_edit", "write", "apply_patch") and not event.is_error:
            changed = [data] if data.get("path") else cast("list[dict[str, Any]]", data.get("files") or [])
            for file in changed:
                how = (
                    file.get("strategy") or ", ".join(file.get("strategies") or []) or file.get("action", "")
                )
                name = f"edit {len(self.attempts) + 1}"
                self.attempts.append({"name": name, "summary": f"{file['path']} ({how})"})

    def see_unfinished(self, scratch: Mapping[str, Any]) -> None:
        """What a search had found when it was cut off; ``scratch`` is the tools' memory."""
        data = scratch.get(SCRATCH)
        if isinstance(data, dict) and cast("dict[str, Any]", data).get("status") == INTERRUPTED:
            self._see_repair(cast("dict[str, Any]", data))

    def _see_repair(self, data: dict[str, Any]) -> None:
        number = sum(1 for attempt in self.attempts if attempt["name"].startswith("search")) + 1
        tried, generated = data.get("candidates_tried", 0), data.get("candidates_generated", 0)
        ending = f", ended by the {data['limit']} limit" if data.get("limit") else ""
        self.attempts.append(
            {
                "name": f"search {number}",
                "summary": f"{tried} of {generated} candidates tried{ending}: {data['status']}",
            }
        )
        self.search = {
            "candidates_tried": tried,
            "candidates_generated": generated,
            "limit": data.get("limit"),
            "confidence": data.get("confidence", 0.0),
            "modes": data.get("modes", {}),
            "workers": data.get("workers", 0),
            "ranker": data.get("ranker", "none: not asked"),
            "phases": data.get("phases", {}),
        }
        self.ambiguous = data["status"] == "ambiguous"
        patches = list(cast("list[dict[str, Any]]", data.get("patches") or []))
        if data["status"] == "fixed" and patches:
            self.explanation = str(patches[0].get("explanation", ""))
            patches = []
        patches += cast("list[dict[str, Any]]", data.get("alternatives") or [])
        for index, patch in enumerate(patches, start=1):
            name = f"search-{number}-{index:02d}"
            summary = f"{patch.get('family', '')}: {patch.get('explanation', '')}"
            if patch.get("difference"):
                summary += f" Compared with the first patch, {patch['difference']}."
            self.keep_diff(name, str(patch.get("diff", "")), summary)

    def keep_diff(self, name: str, diff: str, summary: str, *, best: bool = False) -> None:
        """An unverified diff for the attempts folder; the ``best`` one is listed before all others."""
        self.diffs[name] = diff
        kept = {"name": name, "summary": summary, "diff_file": f"attempts/{name}.diff"}
        self.attempts.insert(0 if best else len(self.attempts), kept)

    def into(self, result: FixResult) -> None:
        result.located, result.attempts, result.search = self.located, self.attempts, self.search
        result.context = self.context
        result.tiers = self.tiers

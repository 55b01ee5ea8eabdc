"""Gives a remote model files or a map of the repository in advance, and notes that in the result."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from ...engine.chat import ChatModel, Message, TextPart
from ..agent.events import AgentEvent, ContextCompacted, ContextLoaded
from ..context.preload import Choice, preload
from ..context.settings import ContextSettings
from .intake import Issue
from .options import FixOptions
from .reproduce import Reproduction
from .stage import Stage

_PLACES = 20
_FRAMES_OF = 50
"""Failing tests whose traces are looked at."""
_LEAST_FILE_NAME = 5


async def with_context(
    options: FixOptions,
    model: ChatModel,
    stage: Stage,
    reproduction: Reproduction,
    issue: Issue,
    messages: Sequence[Message],
    tell: Callable[[AgentEvent], None],
) -> Sequence[Message]:
    """The opening with what was read before the person's own words; embedded reads for itself."""
    if model.name == "embedded":
        return messages
    files = [path for path in await stage.workspace.files() if stage.paths.readable(path)]
    window = ContextSettings.from_environ().window or model.context_window

    def read() -> Any:
        seeds = _seeds(stage.workspace.root, files, reproduction, issue.text)
        return preload(
            stage.workspace.root,
            files,
            cast("Choice", options.context),
            window=window,
            seeds=seeds,
            issue=issue.text,
        )

    loaded = await asyncio.to_thread(read)
    tell(loaded.event)
    if not loaded.text:
        return messages
    *before, last = messages
    part = TextPart(text=f"{loaded.text}\n\n")
    return [*before, last.model_copy(update={"parts": (part, *last.parts)})]


def note_context(event: ContextLoaded | ContextCompacted, context: dict[str, Any]) -> None:
    """Keeps the ``context`` of result.json up to date."""
    context.setdefault("compactions", 0)
    if isinstance(event, ContextCompacted):
        context["compactions"] += 1
        return
    context.update(
        asked=event.asked,
        mode=event.mode,
        files=len(event.files),
        left_out=event.left_out,
        tokens=event.tokens,
    )


def _seeds(root: Path, files: Sequence[str], reproduction: Reproduction, issue: str) -> dict[str, float]:
    """Files of failing tests and traces, files the issue names, and where its words lead."""
    from ..repair.placing import from_issue

    known = set(files)
    seeds: defaultdict[str, float] = defaultdict(float)
    for test in (*reproduction.targets, *reproduction.target_files):
        seeds[test.split("::", 1)[0]] += 1.0
    targets = set(reproduction.targets)
    failing = [case for case in reproduction.before.report.failing() if not targets or case.id in targets]
    for case in failing[:_FRAMES_OF]:
        for frame in case.frames:
            if frame.in_repository:
                seeds[frame.path] += 2.0
    words = set(re.findall(r"[\w./-]+", issue))
    for path in files:
        name = path.rsplit("/", 1)[-1]
        if path in words or (len(name) >= _LEAST_FILE_NAME and "." in name and name in words):
            seeds[path] += 5.0
    if issue.strip():
        for path, score in from_issue(root, issue).files[:_PLACES]:
            seeds[path] += 5.0 * score
    return {path: weight for path, weight in sorted(seeds.items()) if path in known}

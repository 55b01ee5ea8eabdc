"""The first page: what is on this machine, which models can be used, whether this repository is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from ....sandbox.base.errors import WhimbrelError
from ...permissions.steering import KINDS, MEANING, find_steering
from ...trust import TrustStore, remember_trust
from .asking import Quiet
from .dialog import plain

_GROUPS = ("needed", "sandbox")
_LOCAL_SERVERS = (
    ("ollama", "http://127.0.0.1:11434/v1"),
    ("vllm", "http://127.0.0.1:8000/v1"),
    ("llamacpp", "http://127.0.0.1:8080/v1"),
    ("sglang", "http://127.0.0.1:30000/v1"),
)
_LOOK_S = 2.0


class WelcomeScreen(Quiet[None]):
    title_text = "Welcome to Whimbrel"
    hint_text = "Esc begins · T trusts this repository · /model chooses a model"
    deaf_hint = hint_text
    wide = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("t", "trust", "Trust")]

    def __init__(self, repository: Path) -> None:
        super().__init__()
        self._repository = repository

    def body(self) -> Iterable[Widget]:
        yield plain(
            "Describe what is wrong or what to change, or type /fix to repair what the tests show.\n"
            "All work happens in a copy, in a sandbox; your files change when you say so."
        )
        yield plain("This machine", "head")
        yield Vertical(plain("looking ...", "dim"), id="machine")
        yield plain("Models", "head")
        yield plain("✓ embedded  repairs without network, GPU or a large model", "ok")
        yield Vertical(plain("looking for local servers ...", "dim"), id="models")
        yield plain("This repository", "head")
        yield Vertical(*_trust_lines(self._repository), id="trust")

    def on_mount(self) -> None:
        self._look_at_machine()
        self._look_for_models()

    def listen(self) -> None:
        self.query_one(".dialog-body").focus()

    @work
    async def _look_at_machine(self) -> None:
        from ...doctor import State, diagnose
        from ...doctor.diagnosis import PROBES

        diagnosis = await diagnose([probe for probe in PROBES if probe[0] in _GROUPS])
        lines: list[Widget] = []
        for each in diagnosis.findings:
            mark = {State.OK: "✓", State.LIMITED: "~", State.MISSING: "✗"}.get(each.state, "?")
            advice = f"  get it with: {each.install}" if each.install and each.state is State.MISSING else ""
            lines.append(plain(f"{mark} {each.name:<12} {each.detail}{advice}", each.state.value))
        lines.append(plain(diagnosis.verdict, "ok" if diagnosis.exit_code == 0 else "missing"))
        await self._show("#machine", lines)

    @work
    async def _look_for_models(self) -> None:
        found = await asyncio.gather(*(_models_at(kind, url) for kind, url in _LOCAL_SERVERS))
        lines: list[Widget] = [plain(f"✓ {name}", "ok") for names in found for name in names]
        keys = _keys_there()
        lines += [plain(f"✓ {each}", "ok") for each in keys]
        if not lines:
            lines = [plain("no local server answers, and no key is set; see `whimbrel model --help`", "dim")]
        await self._show("#models", lines)

    async def _show(self, place: str, lines: list[Widget]) -> None:
        box = self.query_one(place, Vertical)
        await box.remove_children()
        await box.mount_all(lines)

    async def action_trust(self) -> None:
        try:
            await asyncio.to_thread(remember_trust, self._repository)
        except WhimbrelError as error:
            self.hint(error.one_line())
            return
        await self._show("#trust", _trust_lines(self._repository))


def _trust_lines(repository: Path) -> list[Widget]:
    """What the repository would run or tell the agent, with whether that is trusted."""
    lines: list[Widget] = [plain(str(repository), "dim")]
    try:
        store = TrustStore()
        for kind in KINDS:
            found = find_steering(repository, kind)
            if found.digest:
                trusted = store.is_trusted(repository, found.digest)
                names = ", ".join(sorted(found.files)[:4])
                state = "trusted" if trusted else "not trusted, so not obeyed"
                text = f"{'✓' if trusted else '✗'} {MEANING[kind]}: {names} ({state})"
                lines.append(plain(text, "ok" if trusted else "limited"))
    except WhimbrelError as error:
        lines.append(plain(error.one_line(), "missing"))
    if len(lines) == 1:
        lines.append(plain("it configures nothing that would need your trust", "dim"))
    return lines


async def _models_at(kind: str, url: str) -> list[str]:
    from ...commands.model import list_endpoint

    try:
        async with asyncio.timeout(_LOOK_S):
            listed = await list_endpoint(f"{kind}:@{url}")
    except (WhimbrelError, OSError, TimeoutError, ValueError):
        return []
    return [f"{kind}:{each.name}@{url}" for each in listed[:5]]


def _keys_there() -> list[str]:
    """Providers whose key stands in the environment; the key itself is not looked at."""
    import os

    names = {
        "ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai", "DEEPSEEK_API_KEY": "deepseek",
        "OPENROUTER_API_KEY": "openrouter", "MOONSHOT_API_KEY": "kimi-api",
    }  # fmt: skip
    return [f"{kind}: a key is set ({name})" for name, kind in names.items() if os.environ.get(name)]

"""What a fix-issue run was asked to do; plain data, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..permissions.rules import Rule

if TYPE_CHECKING:
    from ...sandbox.workspace import StartTree
    from ..config import Settings
    from ..mcp.config import McpServer
    from ..reports import ReportRequest
    from .check import Check
    from .person import Person


def _built_in() -> Settings:
    from ..config import Settings

    return Settings()


@dataclass(frozen=True)
class FixOptions:
    """Options of the main job, as given by whichever door."""

    repository: Path
    revision: str | None = None
    """Commit or branch to start from; None = the working tree as it is."""
    start: StartTree | None = None
    """The tree to start from, in place of the working tree or a revision (git hooks)."""
    check: Check | None = None
    """Run only what a change affects, and end when that passes; None = the whole suite at once."""
    issue: str | None = None
    """Text, file, ``-`` or GitHub issue address; None = only the failing tests speak."""
    issue_is_text: bool = False
    """``issue`` is the text itself, whatever it looks like (a commit message)."""
    log: Path | None = None
    """A failing CI log to read failing tests and traces from."""
    tests: tuple[str, ...] = ()
    """Test ids, or one shell command."""
    python: str | None = None
    trust: bool = False
    model: str = "embedded"
    effort: str = "auto"
    """low, high, max, or auto: the scheduler's choice per step."""
    context: str = "auto"
    """What a remote model is given of the repository in advance: auto, map or whole-repo."""
    sandbox: str = "auto"
    image: str | None = None
    network: bool = False
    web: bool = False
    """Whether the model may read public web pages."""
    lint: bool = True
    """Whether the project's own linter or type checker looks at each edit."""
    max_time_s: float = 1800.0
    spent_s: float = 0.0
    """Seconds of it that were over when the job began: starting the program takes a while, too."""
    max_steps: int = 100
    max_tokens: int | None = None
    """Input and output of all steps together; None: no limit."""
    max_cost_usd: float | None = None
    """Of the model; None: no limit."""
    max_candidates: int | None = None
    """Edits the search may try at most; None: its own limits, of number and of time."""
    seed: int = 0
    output: Path | None = None
    keep_uneventful: bool = True
    """Keep the result of a run that found nothing to fix."""
    reports: tuple[ReportRequest, ...] = ()
    quiet_stdout: bool = False
    """Standard output belongs to JSON lines; a report that is shown goes to standard error."""
    apply: bool = False
    allow_build: bool = True
    mcp: tuple[str, ...] = ()
    """Names of MCP servers to use, or ``none``; empty: all that are enabled."""
    instructions_from: str | None = None
    """Commit or branch whose instruction files count; None: the environment of a CI run decides."""
    rules: tuple[Rule, ...] = ()
    """Permission rules of the person, from flags and configuration."""
    permission_mode: str = "default"
    mcp_servers: tuple[McpServer, ...] = ()
    """Servers that the door brings along, besides those of the settings."""
    person: Person | None = field(default=None, repr=False, compare=False)
    """Who can be asked; None: what would be asked is denied."""
    settings: Settings = field(default_factory=_built_in, repr=False)
    """The rest of the settings; options that have a field here count as this field says."""


def parse_duration(text: str) -> float:
    """``90``, ``90s``, ``15m``, ``2h`` -> seconds.

    Raises:
        ValueError: with the accepted forms.
    """
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    body, unit = (text[:-1], text[-1]) if text and text[-1] in units else (text, "s")
    try:
        value = float(body)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e7:
        raise ValueError(f"'{text}' is not a duration; write 90, 90s, 15m or 2h")
    return value * units[unit]

"""The Tool protocol: what a model may do, and what comes back.

A tool has a name, a pydantic argument model (its JSON schema is what the model
sees), a permission class and ``run``. Results carry text for the model, typed
JSON data for programs (the embedded policy and the doors read the data and never
parse the text), artifact handles and an error mark.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from ...engine.chat import ImagePart, JsonValue, ToolSpec
from ...sandbox.protocol import Sandbox
from ...sandbox.workspace import Workspace
from ..evidence import EvidenceLedger
from ..permissions.paths import PathPolicy
from ..repo.testing.runner import TestRunner

if TYPE_CHECKING:
    from ..agent.children import Children


class PermissionClass(Enum):
    """What an action can touch, for permission rules."""

    READ = "read"
    """Reads files of the workspace."""
    WRITE = "write"
    """Changes files of the workspace copy."""
    EXECUTE = "execute"
    """Runs commands inside the sandbox."""
    NETWORK = "network"
    """Reaches outside."""


class ToolArguments(BaseModel):
    """Base of all argument models: unknown keys are an error the model can read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class ToolResult:
    """What a tool gives back."""

    text: str
    """For the model; already bounded, with true sizes where something is hidden."""
    data: JsonValue = None
    """Typed JSON for programs; its shape is documented in the tool's module."""
    artifacts: tuple[str, ...] = ()
    """Blob handles of complete outputs (ToolContext.keep)."""
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()
    """Shown to the model in a user message after the results of the step: tool messages hold text only."""


@dataclass(frozen=True)
class Question:
    """What a model wants to know from the person."""

    text: str
    options: tuple[str, ...] = ()
    """Answers to choose from; the person may write another one."""


@dataclass(frozen=True)
class Progress:
    """A step of a long-running tool, for doors."""

    phase: str
    """locate, reproduce, patch, test, verify, ..."""
    text: str
    fraction: float | None = None
    data: JsonValue = None


def no_progress(_: Progress) -> None:
    """The default listener."""


def _not_known() -> bool | None:
    return None


@dataclass
class ToolContext:
    """Everything tools may use; one per run."""

    workspace: Workspace
    sandbox: Sandbox
    tests: TestRunner
    ledger: EvidenceLedger
    keep: Callable[[bytes, str], str]
    """Stores a complete output in the session's blobs; returns its handle."""
    fetch: Callable[[str], bytes]
    """Reads a blob back by handle; raises KeyError."""
    progress: Callable[[Progress], None] = no_progress
    deadline: float | None = None
    """time.monotonic() value at which the run must be over, or None."""
    seed: int = 0
    issue_text: str = ""
    target_tests: tuple[str, ...] = ()
    """Test ids the run should turn green, when known from the start."""
    max_candidates: int | None = None
    """Edits a search may try at most, when the person said so: then no clock of its own ends it."""
    lint: bool = True
    """Whether edits are followed by the project's own linter or type checker."""
    ask: Callable[[Question], Awaitable[str]] | None = None
    """Asks the person; None where nobody can be asked. Set by interactive doors."""
    sees_images: Callable[[], bool | None] = _not_known
    """Whether the model takes images; None = not known. Set by the agent."""
    call_id: str = ""
    """Of the call that is running."""
    children: Children | None = None
    """Runs sub-agents. Set by the agent."""
    scratch: dict[str, Any] = field(default_factory=dict[str, Any])
    """Per-run memory of tools (files read with their hashes, baseline report...), keyed by tool name."""
    paths: PathPolicy = field(default_factory=PathPolicy)
    """Which paths a tool may show (``paths.readable``) and change (``paths.writable``)."""

    def __post_init__(self) -> None:
        if self.paths.root is None:
            self.paths = self.paths.at(self.workspace.root, (self.sandbox.spec.workdir,))


class Tool(Protocol):
    """One thing a model can do."""

    name: ClassVar[str]
    arguments: ClassVar[type[ToolArguments]]
    permission: ClassVar[PermissionClass]

    async def run(self, context: ToolContext, arguments: Any) -> ToolResult:
        """Does it.

        Raises:
            ToolError: for what the model can react to; the loop turns it into an error result.
            WhimbrelError: anything else with ``model_sees`` false ends the run.
        """
        ...


@runtime_checkable
class SelfDescribed(Protocol):
    """A tool that brings its own description and schema (those of MCP servers)."""

    def spec(self) -> ToolSpec: ...


def spec_of(tool: Tool) -> ToolSpec:
    """The tool as a model sees it; the description is the ``.md`` file beside the module, or its own."""
    if isinstance(tool, SelfDescribed):
        return tool.spec()
    description = (
        resources.files(__package__ or "whimbrel.app.tools")
        .joinpath(f"{tool.name}.md")
        .read_text(encoding="utf-8")
        .strip()
    )
    schema = tool.arguments.model_json_schema()
    schema.pop("title", None)
    return ToolSpec(name=tool.name, description=description, parameters=schema)

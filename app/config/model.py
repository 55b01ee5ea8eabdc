"""What can be set, with its defaults: one frozen pydantic model, also the published schema.

Unknown keys are kept (a newer version may know them) and reported by whoever loads a file.
Sections whose keys are the person's own (servers, prices, profiles) are plain tables.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

EffortName = Literal["low", "high", "max"]
EffortChoice = Literal["auto", "low", "high", "max"]
SandboxName = Literal["auto", "docker", "bwrap", "host", "outer"]
Text = Annotated[str, Field(min_length=1)]


def _seconds(value: Any) -> Any:
    """``90`` or a text such as ``15m`` as seconds."""
    if isinstance(value, str):
        from ..fix.options import parse_duration

        return parse_duration(value)
    return value


Duration = Annotated[
    float,
    BeforeValidator(_seconds, json_schema_input_type=float | str),
    Field(gt=0, lt=1e7, description="Seconds, or a text such as 90s, 15m, 2h."),
]


class Section(BaseModel):
    """Base of all sections: immutable; keys it does not know are kept, never obeyed.

    Strict: a text is no number and ``true`` is not 1.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)


class TaskModel(Section):
    """Model and effort of one kind of step; what is not set falls back to the run's own."""

    name: Text | None = Field(default=None, description="Model string, as for --model.")
    effort: EffortName | None = Field(default=None, description="How hard it thinks at such steps.")


class Tasks(Section):
    """Kinds of steps that may have a model or an effort of their own."""

    routing: TaskModel = TaskModel()
    planning: TaskModel = TaskModel()
    patching: TaskModel = TaskModel()


class Model(Section):
    name: Text = Field(
        default="embedded", description="embedded, openai:NAME, openai:NAME@URL, vllm:NAME@URL, ..."
    )
    tasks: Tasks = Field(default=Tasks(), description="Other models or efforts for kinds of steps.")


class EffortSection(Section):
    default: EffortChoice = Field(
        default="auto", description="How hard a remote model thinks; auto: each step as much as it needs."
    )


class Sandbox(Section):
    kind: SandboxName = Field(default="auto", description="Where tests and commands run.")
    image: Text | None = Field(default=None, description="Container image for the docker sandbox.")
    network: bool = Field(default=False, description="Let the sandbox reach the network.")
    build: bool = Field(default=True, description="Build images and environments when needed.")


class Limits(Section):
    steps: int = Field(default=100, ge=1, le=10_000, description="Questions to the model.")
    time: Duration = Field(default=1800.0, description="Of the whole command: seconds, or 90s, 15m, 2h.")
    tokens: int | None = Field(default=None, ge=1, description="Input and output of all steps together.")
    cost_usd: float | None = Field(
        default=None, gt=0, description="US dollars; needs an endpoint or prices that tell."
    )
    candidates: int | None = Field(default=None, ge=1, description="Edits a search tries at most.")


class Price(Section):
    """US dollars per million tokens; what is not set is unknown, not zero."""

    input: float | None = Field(default=None, ge=0)
    output: float | None = Field(default=None, ge=0)
    cached: float | None = Field(default=None, ge=0)


class Permissions(Section):
    rules: list[dict[str, Any]] = Field(
        default=[], description="Rules over tools and what they touch; those of all files count together."
    )


class Sessions(Section):
    mirror: str = Field(
        default="", description="Where closed sessions are copied to: s3://bucket/prefix, file:///..."
    )
    snapshots_mb: int = Field(
        default=256, ge=1, description="File states that one session keeps for going back, in MiB as stored."
    )
    keep_days: int | None = Field(
        default=None, ge=1, description="`session prune` removes older ones by default."
    )


class Telemetry(Section):
    traces: bool = Field(default=False, description="Send traces over OTLP; off unless asked for.")
    endpoint: str = Field(default="", description="OTLP address; empty: OTEL_EXPORTER_OTLP_ENDPOINT.")
    metrics_file: str = Field(default="", description="Prometheus text file, written when a run ends.")
    metrics_port: int | None = Field(
        default=None, ge=1, le=65535, description="Loopback port that serves metrics during a run."
    )


class Context(Section):
    mode: Literal["auto", "map", "whole-repo"] = Field(
        default="auto", description="What a model sees beforehand."
    )
    compact_at: float = Field(
        default=0.85, ge=0.1, le=0.95, description="Share of the window at which history is compacted."
    )


class Tui(Section):
    theme: str = Field(default="", description="Colours of the terminal interface; empty: what fits.")
    rail: bool = Field(default=True, description="Show the rail beside the conversation.")
    notify: Literal["off", "bell", "desktop"] = Field(
        default="bell", description="How the end of a long run is told; desktop: by the terminal (OSC 9)."
    )
    notify_after: Duration = Field(default=20.0, description="What a long run is: seconds, or 90s, 15m.")
    keys: dict[str, str] = Field(default={}, description='NAME -> its keys, such as find = "ctrl+s".')


class Hook(Section):
    time: Duration | None = Field(
        default=None, description="Of one hook run: 90s, 15m, 2h; by default 60s, 5m for pre-push."
    )
    apply: bool = Field(default=False, description="Apply what the hook proposes.")


class Settings(Section):
    """All settings of one run. Made by ``load_settings``; never changed, never global."""

    model_config = ConfigDict(title="Whimbrel settings")

    profile: str = Field(default="", description="Profile that is used when --profile names none.")
    model: Model = Model()
    effort: EffortSection = EffortSection()
    sandbox: Sandbox = Sandbox()
    limits: Limits = Limits()
    prices: dict[str, Price] = Field(default={}, description="MODEL -> its price; the name is quoted.")
    permissions: Permissions = Permissions()
    mcp: dict[str, dict[str, Any]] = Field(
        default={}, description="NAME -> how an MCP server is reached; plain data."
    )
    sessions: Sessions = Sessions()
    telemetry: Telemetry = Telemetry()
    context: Context = Context()
    hook: Hook = Hook()
    tui: Tui = Tui()
    profiles: dict[str, dict[str, Any]] = Field(
        default={}, description="NAME -> settings that count instead when the profile is chosen."
    )

    def price_of(self, model: str) -> tuple[float | None, float | None]:
        """US dollars per million input and output tokens of a model, or None where none is set.

        A price may be set for the whole model string or for the name without its address.
        """
        price = self.prices.get(model) or self.prices.get(model.split("@http")[0])
        return (price.input, price.output) if price else (None, None)


def schema() -> dict[str, Any]:
    """The JSON schema of a settings file."""
    return Settings.model_json_schema(mode="validation")

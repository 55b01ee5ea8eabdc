"""Metrics of a run in Prometheus' form.

Labels have few values by construction: tools that exist, models, statuses. Never paths,
prompts, commands or addresses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import atomic_write

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_COUNTS = (0, 1, 2, 3, 4, 5, 8, 12, 20, 40)


class Metrics:
    """The instruments of one process, in a registry of its own.

    Raises:
        ConfigError: the library is not installed, or the port is taken.
    """

    def __init__(self, *, port: int | None = None) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as error:
            raise ConfigError(
                "metrics were asked for, and the prometheus_client package is not installed",
                hint="pip install 'whimbrel[otel]', or unset WHIMBREL_METRICS_FILE and WHIMBREL_METRICS_PORT",
            ) from error
        registry = prometheus.CollectorRegistry()
        counter: Any = prometheus.Counter
        histogram: Any = prometheus.Histogram
        self._render = lambda: prometheus.generate_latest(registry)
        self.tool_calls = counter(
            "whimbrel_tool_calls", "Tool calls by outcome.", ("tool", "outcome"), registry=registry
        )
        self.tool_seconds = histogram(
            "whimbrel_tool_seconds", "Time in a tool.", ("tool",), buckets=_SECONDS, registry=registry
        )
        self.tokens = counter(
            "whimbrel_tokens",
            "Tokens as reported; a kind that no endpoint reported has no sample.",
            ("model", "kind"),
            registry=registry,
        )
        self.steps = counter(
            "whimbrel_model_steps", "Questions to the model.", ("model", "effort"), registry=registry
        )
        self.first_token = histogram(
            "whimbrel_model_first_token_seconds",
            "From the question to the first piece of the answer.",
            ("model",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.between_tokens = histogram(
            "whimbrel_model_between_pieces_seconds",
            "Between two streamed pieces of one answer (about a token each).",
            ("model",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.attempts = histogram(
            "whimbrel_fix_attempts",
            "Edits and searches made until the run ended.",
            ("status",),
            buckets=_COUNTS,
            registry=registry,
        )
        self.sandbox_seconds = histogram(
            "whimbrel_sandbox_seconds",
            "Recorded commands in the sandbox.",
            ("kind", "purpose"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.phase_seconds = histogram(
            "whimbrel_phase_seconds", "Phases of runs.", ("phase",), buckets=_SECONDS, registry=registry
        )
        self.runs = counter("whimbrel_runs", "Runs by how they ended.", ("status",), registry=registry)
        self._server: Any = None
        if port is not None:
            try:
                self._server, _ = prometheus.start_http_server(port, addr="127.0.0.1", registry=registry)
            except OSError as error:
                raise ConfigError(
                    f"metrics cannot be served on 127.0.0.1:{port}: {error.strerror}",
                    hint="set WHIMBREL_METRICS_PORT to a free port",
                ) from error

    def write(self, path: Path) -> None:
        """Replaces the file whole, as textfile collectors want it. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, self._render(), mode=0o644)

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

"""What is measured and where it goes. Everything is off by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.errors import ConfigError
from ..config.model import Telemetry

METRICS_FILE = "WHIMBREL_METRICS_FILE"
METRICS_PORT = "WHIMBREL_METRICS_PORT"
TRACES = "WHIMBREL_TRACES"

_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class TelemetrySettings:
    """Where measurements of a run go."""

    metrics_file: Path | None = None
    """Prometheus text format, written whole at the end of the run (for a textfile collector)."""
    metrics_port: int | None = None
    """Loopback port that serves the same while the run lasts."""
    traces: bool = False
    """Spans over OTLP/HTTP; the address comes from the standard OTEL_EXPORTER_OTLP_* variables."""

    @property
    def anything(self) -> bool:
        return self.traces or self.metrics_file is not None or self.metrics_port is not None

    endpoint: str = ""
    """Of the traces; empty: what the standard variables say."""

    @classmethod
    def of(cls, section: Telemetry, environ: Mapping[str, str]) -> TelemetrySettings:
        """The environment's wishes, and those of the settings where it has none. Raises ConfigError."""
        asked = cls.from_environment(environ)
        file = Path(section.metrics_file).expanduser().absolute() if section.metrics_file else None
        return cls(
            asked.metrics_file or file,
            asked.metrics_port or section.metrics_port,
            asked.traces or (section.traces and not environ.get(TRACES, "").strip()),
            section.endpoint,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> TelemetrySettings:
        """Raises ConfigError for a value that means nothing."""
        file, port = environ.get(METRICS_FILE, "").strip(), environ.get(METRICS_PORT, "").strip()
        traces = environ.get(TRACES, "").strip().lower()
        if traces not in _YES + _NO:
            raise ConfigError(f"{TRACES} is {traces!r}", hint="set it to 1 or 0")
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            raise ConfigError(f"{METRICS_PORT} is {port!r}, which is no port", hint="give 1 to 65535")
        return cls(
            Path(file).expanduser().absolute() if file else None, int(port) if port else None, traces in _YES
        )

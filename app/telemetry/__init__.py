"""Traces and metrics of a run; off unless the environment or the configuration asks for them."""

from __future__ import annotations

from .observer import RunTelemetry, open_telemetry
from .settings import TelemetrySettings

__all__ = ["RunTelemetry", "TelemetrySettings", "open_telemetry"]

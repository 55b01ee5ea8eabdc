"""Spans over OTLP: one trace per run, a span per question, per tool call, per recorded command.

The attribute names of the generative-AI conventions still move between releases of the
library, so they are written out here instead of imported.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...sandbox.base.errors import ConfigError
from ..version import __version__

OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
FINISH = "gen_ai.response.finish_reasons"
TOOL = "gen_ai.tool.name"
CALL_ID = "gen_ai.tool.call.id"
ERROR = "error.type"
EFFORT = "whimbrel.effort"
STATUS = "whimbrel.status"

_FLUSH_MS = 1500
"""The process must not wait for a collector that does not answer."""


class Traces:
    """Begins and ends spans; ``close`` sends what is left.

    Raises:
        ConfigError: the libraries are not installed.
    """

    def __init__(self, endpoint: str = "") -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise ConfigError(
                "traces were asked for, and the opentelemetry packages are not installed",
                hint="pip install 'whimbrel[otel]', or unset WHIMBREL_TRACES",
            ) from error
        import logging

        # A collector that is away is no news for the person at the terminal.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        resource = Resource.create({"service.name": "whimbrel", "service.version": __version__})
        # Not the global provider: what we run in (a notebook, a test) may have its own.
        self._provider = TracerProvider(resource=resource)
        path = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        exporter = OTLPSpanExporter(endpoint=path, timeout=1)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
        self._tracer = self._provider.get_tracer("whimbrel", __version__)
        self._in_span = trace.set_span_in_context
        self._error = trace.Status(trace.StatusCode.ERROR)

    def begin(
        self, name: str, parent: Any = None, *, attributes: Mapping[str, Any], ago_s: float = 0.0
    ) -> Any:
        """A new span; ``attributes`` by the constants above. ``ago_s``: it began so long ago."""
        return self._tracer.start_span(
            name,
            context=self._in_span(parent) if parent is not None else None,
            attributes={key: value for key, value in attributes.items() if value is not None},
            start_time=time.time_ns() - int(ago_s * 1e9),
        )

    def end(self, span: Any, *, failed: str = "", attributes: Mapping[str, Any] | None = None) -> None:
        for key, value in (attributes or {}).items():
            if value is not None:
                span.set_attribute(key, value)
        if failed:
            span.set_attribute(ERROR, failed)
            span.set_status(self._error)
        span.end()

    def close(self) -> None:
        self._provider.force_flush(_FLUSH_MS)
        self._provider.shutdown()

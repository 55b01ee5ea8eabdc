"""Figures for Prometheus: of the server itself, and those its backend gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from .admission import Admission
from .backend import Backend
from .record import Record

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_BETWEEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_WHOLE = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

_FAMILIES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Metrics:
    """Own registry: several servers in one process do not mix."""

    def __init__(self, backend: Backend, admission: Admission) -> None:
        self._registry = registry = CollectorRegistry()
        registry.register(_Live(backend, admission))
        name = "whimbrel_"
        self._requests = Counter(
            f"{name}requests", "Requests by path and status", ["path", "status"], registry=registry
        )
        self._aborted = Counter(
            f"{name}requests_aborted", "Requests whose client left before the end", registry=registry
        )
        self._failed = Counter(
            f"{name}stream_errors", "Answers that failed after their stream had begun", registry=registry
        )
        self._tokens_in = Counter(f"{name}prompt_tokens", "Tokens of prompts", registry=registry)
        self._tokens_out = Counter(f"{name}generation_tokens", "Tokens generated", registry=registry)
        self._cached = Counter(
            f"{name}cached_prompt_tokens", "Tokens of prompts found in the cache", registry=registry
        )
        self._first = Histogram(
            f"{name}time_to_first_token_seconds",
            "From the request to the first piece of the answer",
            buckets=_FIRST,
            registry=registry,
        )
        self._between = Histogram(
            f"{name}inter_token_seconds",
            "Between one piece of an answer and the next",
            buckets=_BETWEEN,
            registry=registry,
        )
        self._whole = Histogram(
            f"{name}request_seconds",
            "Whole requests that asked the model",
            buckets=_WHOLE,
            registry=registry,
        )

    def gap(self, seconds: float) -> None:
        self._between.observe(seconds)

    def note(self, record: Record, seconds: float) -> None:
        """Counts a finished request."""
        self._requests.labels(record.path, str(record.status)).inc()
        if record.aborted:
            self._aborted.inc()
        elif record.error and record.status == 200:
            self._failed.inc()
        if not record.generated:
            return
        self._whole.observe(seconds)
        if record.first is not None:
            self._first.observe(record.first - record.began)
        if usage := record.usage:
            self._tokens_in.inc(usage.input_tokens or 0)
            self._tokens_out.inc(usage.output_tokens or 0)
            self._cached.inc(usage.cached_tokens or 0)

    def page(self) -> bytes:
        return generate_latest(self._registry)


class _Live(Collector):
    """What is read at the moment of asking."""

    def __init__(self, backend: Backend, admission: Admission) -> None:
        self._backend = backend
        self._admission = admission

    def collect(self) -> Iterator[Metric]:
        admission = self._admission
        yield GaugeMetricFamily(
            "whimbrel_requests_running", "Requests that hold a slot", value=admission.running
        )
        yield GaugeMetricFamily("whimbrel_requests_waiting", "Requests in the queue", value=admission.waiting)
        yield GaugeMetricFamily(
            "whimbrel_draining", "1 while the server ends", value=float(admission.draining)
        )
        families: dict[str, Any] = {}
        for figure in self._backend.figures():
            name = f"whimbrel_{figure.name}"
            if name not in families:
                families[name] = _FAMILIES[figure.kind](name, figure.help, labels=sorted(figure.labels))
            values = [figure.labels[label] for label in sorted(figure.labels)]
            if figure.kind == "histogram":
                ends = [(floatToGoString(end), count) for end, count in figure.buckets]
                families[name].add_metric(values, ends, figure.value)
            else:
                families[name].add_metric(values, figure.value)
        yield from families.values()

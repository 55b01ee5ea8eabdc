"""What a run measures and sends, seen from the collectors' side."""

from __future__ import annotations

import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from whimbrel.app.telemetry.metrics import Metrics
from whimbrel.sandbox.base.errors import ConfigError

from tests.fix.conftest import Ran, Repo, buggy, fix, home, repo
from tests.mock_server import MockServer, Request, completion, usage_chunk

__all__ = ["buggy", "fix", "home", "repo"]

SECRET_PATH = "tally.py"
EDIT = {"path": SECRET_PATH, "old": "if count < most:", "new": "if count > most:"}


def script(request: Request) -> Any:
    step = sum(message["role"] == "assistant" for message in request.messages)
    steps = [
        [("a1", "edit", EDIT), ("a2", "edit", {"path": "nowhere.py", "old": "x", "new": "y"})],
        [("b1", "rm_rf_everything", {})],
        [],
    ]
    reply = completion(text="Done." if step >= 2 else "", calls=steps[min(step, 2)])
    usage = usage_chunk(100 * (step + 1), 7, prompt_tokens_details={"cached_tokens": 60})
    return type(reply)(pieces=[*reply.pieces[:-1], usage, reply.pieces[-1]])


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """An OTLP/HTTP collector: its address and the spans it got."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    spans.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        server.server_close()


def attributes(span: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        found[pair.key] = getattr(pair.value, kind)
    return found


def test_a_run_sends_one_trace_and_writes_its_metrics_and_neither_holds_content(
    buggy: Repo, fix: Callable[..., Ran], tmp_path: Any
):
    file = tmp_path / "metrics" / "whimbrel.prom"
    with MockServer(script) as model, collector() as (address, spans):
        ran = fix(
            buggy, "--python", sys.executable, "--model", f"vllm:m@{model.url}",
            WHIMBREL_TRACES="1", OTEL_EXPORTER_OTLP_ENDPOINT=address, WHIMBREL_METRICS_FILE=str(file),
        )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err

    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return samples[name, tuple(sorted(labels.items()))]

    assert value("whimbrel_tool_calls_total", tool="edit", outcome="ok") == 1
    assert value("whimbrel_tool_calls_total", tool="edit", outcome="error") == 1
    assert value("whimbrel_tool_calls_total", tool="unknown", outcome="not_run") == 1
    assert value("whimbrel_tokens_total", model="vllm:m", kind="input") == 100 + 200 + 300
    assert value("whimbrel_tokens_total", model="vllm:m", kind="cached") == 3 * 60
    assert value("whimbrel_model_first_token_seconds_count", model="vllm:m") == 3
    assert value("whimbrel_fix_attempts_sum", status="fixed") == 1
    assert value("whimbrel_runs_total", status="fixed") == 1
    assert value("whimbrel_sandbox_seconds_count", kind="host", purpose="baseline") >= 1
    assert value("whimbrel_phase_seconds_count", phase="verify") == 1

    assert len({span.trace_id for span in spans}) == 1
    (root,) = [span for span in spans if not span.parent_span_id]
    assert attributes(root)["whimbrel.status"] == "fixed"
    assert {span.parent_span_id for span in spans if span is not root} == {root.span_id}
    tools = {attributes(span)["gen_ai.tool.call.id"] for span in spans if span.name == "execute_tool edit"}
    assert tools == {"a1", "a2"}
    chats = [attributes(span) for span in spans if span.name == "chat vllm:m"]
    assert [chat["gen_ai.usage.input_tokens"] for chat in chats] == [100, 200, 300]

    sent = file.read_text() + "".join(str(span) for span in spans)
    for content in (SECRET_PATH, "rm_rf_everything", "if count", str(buggy.root), model.url):
        assert content not in sent


def test_a_collector_that_is_away_costs_neither_the_result_nor_time(buggy: Repo, fix: Callable[..., Ran]):
    ran = fix(
        buggy, "--python", sys.executable, WHIMBREL_TRACES="1",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", timeout=120,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    assert "opentelemetry" not in ran.err.lower() and "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WHIMBREL_METRICS_PORT", "70000"),
        ("WHIMBREL_METRICS_PORT", "http"),
        ("WHIMBREL_TRACES", "sometimes"),
    ],
)
def test_a_setting_that_means_nothing_is_one_line(
    name: str, value: str, buggy: Repo, fix: Callable[..., Ran]
):
    ran = fix(buggy, **{name: value})
    assert ran.code == 10
    assert name in ran.result["message"] and value in ran.result["message"]


def test_a_metrics_file_that_cannot_be_written_is_a_note_of_the_result(
    buggy: Repo, fix: Callable[..., Ran], tmp_path: Any
):
    (tmp_path / "in-the-way").write_text("a file")
    ran = fix(
        buggy, "--python", sys.executable, WHIMBREL_METRICS_FILE=str(tmp_path / "in-the-way" / "metrics.prom")
    )
    assert ran.code == 0
    assert any("metrics could not be written" in note for note in ran.result["notes"])


def test_metrics_are_served_on_loopback_while_the_run_lasts_and_a_taken_port_is_one_line():
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
            Metrics(port=port)
    metrics = Metrics(port=port)
    metrics.runs.labels("fixed").inc()
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    metrics.close()
    assert 'whimbrel_runs_total{status="fixed"} 1.0' in text
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)

"""A byte-scripted OpenAI-compatible server over real HTTP.

A script is a list of replies, one per request, or a function from request to reply.
A reply is raw bytes in pieces, so that every oddity of real servers can be played:
pauses, cuts in the middle, wrong headers, errors inside a 200 stream. Requests are
recorded and can be checked by validators that answer 400 like a strict server.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

CUT = object()
"""A piece that ends the connection in the middle of the body."""


@dataclass(frozen=True)
class Pause:
    """A piece that waits: for seconds, or until an event is set."""

    until: threading.Event | float


@dataclass
class Request:
    """What the server received."""

    path: str
    headers: dict[str, str]
    """Lower-case names."""
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]


@dataclass
class Reply:
    """Status, headers and body pieces (bytes, Pause, CUT) of one answer."""

    pieces: Sequence[Any] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})


Script = Sequence[Reply] | Callable[[Request], Reply]


def sse(value: Any) -> bytes:
    """One ``data:`` event."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"data: {text}\n\n".encode()


def chunk(delta: dict[str, Any] | None = None, *, finish: str | None = None, **extra: Any) -> bytes:
    """One chat-completion chunk with a single choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return sse({"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **extra})


def usage_chunk(prompt: int = 100, completion: int = 20, **extra: Any) -> bytes:
    """The last chunk of a server that was asked for usage: no choices."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, **extra}
    return sse({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage})


DONE = sse("[DONE]")


def stream(*pieces: Any, done: bool = True) -> Reply:
    return Reply(pieces=[*pieces, *([DONE] if done else [])])


def completion(
    *,
    text: str = "",
    reasoning: str | None = None,
    reasoning_field: str = "reasoning_content",
    calls: Iterable[tuple[str, str, Any]] = (),
    finish: str | None = None,
    usage: tuple[int, int] | None = (100, 20),
) -> Reply:
    """A well-behaved streamed answer; calls are (id, name, arguments as JSON value or raw text)."""
    pieces: list[bytes] = [chunk({"role": "assistant"})]
    if reasoning is not None:
        pieces += [chunk({reasoning_field: part}) for part in _parts(reasoning)]
    pieces += [chunk({"content": part}) for part in _parts(text) if text]
    calls = list(calls)
    for index, (call_id, name, arguments) in enumerate(calls):
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        head = {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        pieces.append(chunk({"tool_calls": [head]}))
        pieces += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}) for part in _parts(raw)
        ]
    pieces.append(chunk(finish=finish or ("tool_calls" if calls else "stop")))
    if usage is not None:
        pieces.append(usage_chunk(*usage))
    return stream(*pieces)


def error(status: int, body: Any, **headers: str) -> Reply:
    """A refusal with a JSON (or raw text) body; underscores in header names become dashes."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(pieces=[data], status=status, headers={"content-type": "application/json", **named})


def _parts(text: str, size: int = 7) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


class MockServer:
    """``with MockServer(script) as server: ... server.url ... server.requests``."""

    def __init__(
        self,
        script: Script,
        *,
        validators: Sequence[Callable[[Request], str | None]] = (),
        documents: dict[str, Any] | None = None,
    ) -> None:
        """``documents``: what GET gives, by path: a Reply, or a value sent as JSON; others are 404."""
        self.requests: list[Request] = []
        self.looked_at: list[str] = []
        """Paths of GET requests."""
        self._documents = documents or {}
        self.script_errors: list[str] = []
        """What went wrong on the test's side (script ran out); check it is empty."""
        self._script = script
        self._validators = validators
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def model(self, name: str = "scripted", prefix: str = "vllm") -> str:
        """The model string for ``--model``."""
        return f"{prefix}:{name}@{self.url}"

    def __enter__(self) -> MockServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _answer(self, request: Request) -> Reply:
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        for validator in self._validators:
            problem = validator(request)
            if problem:
                return error_reply(problem)
        if callable(self._script):
            return self._script(request)
        if number >= len(self._script):
            self.script_errors.append(f"request {number + 1} has no scripted reply")
            return error(400, {"error": {"message": "the script has no more replies", "type": "script"}})
        return self._script[number]

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._play(server._answer(Request(self.path, headers, body)))

            def do_GET(self) -> None:
                server.looked_at.append(self.path)
                found = server._documents.get(self.path, error(404, {"detail": "Not Found"}))
                self._play(found if isinstance(found, Reply) else error(200, found))

            def _play(self, reply: Reply) -> None:
                self.close_connection = True
                self.send_response(reply.status)
                for name, value in {
                    **reply.headers,
                    "transfer-encoding": "chunked",
                    "connection": "close",
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    for piece in reply.pieces:
                        if piece is CUT:
                            return
                        if isinstance(piece, Pause):
                            self.wfile.flush()
                            if isinstance(piece.until, threading.Event):
                                piece.until.wait(60)
                            else:
                                time.sleep(piece.until)
                        elif piece:
                            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                            self.wfile.flush()
                    self.wfile.write(b"0\r\n\r\n")
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the client went away, which some tests want

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        return Handler


def error_reply(message: str) -> Reply:
    return error(400, {"error": {"message": message, "type": "invalid_request_error", "code": 400}})


def every_call_answered(request: Request) -> str | None:
    """Each call id gets exactly one tool message before anything else, as strict servers demand."""
    open_ids: list[str] = []
    for message in request.messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                return f"tool message for {message['tool_call_id']!r} without its call"
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            return f"calls {open_ids} have no tool message before the next {message['role']} message"
        open_ids = [call["id"] for call in message.get("tool_calls") or ()]
    return f"calls {open_ids} have no tool message" if open_ids else None


def arguments_are_json(request: Request) -> str | None:
    """History with broken call arguments is refused, and so are calls without a name."""
    for message in request.messages:
        for call in message.get("tool_calls") or ():
            if not call["function"]["name"]:
                return "a call in the history has no name"
            try:
                value = json.loads(call["function"]["arguments"])
            except ValueError:
                return f"arguments of {call['id']} are not valid JSON"
            if not isinstance(value, dict):
                return f"arguments of {call['id']} are not an object"
    return None


def reasoning_replayed(field_name: str) -> Callable[[Request], str | None]:
    """Assistant messages with calls must carry the reasoning field (even an empty one)."""

    def check(request: Request) -> str | None:
        for message in request.messages:
            if message["role"] == "assistant" and message.get("tool_calls") and field_name not in message:
                return f"the {field_name} in the thinking mode must be passed back"
        return None

    return check

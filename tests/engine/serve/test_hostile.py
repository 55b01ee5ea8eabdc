"""Whatever is sent, the answer is a status and one line, and the server goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from whimbrel.engine.serve.answer import Patience
from whimbrel.engine.serve.app import Limits
from whimbrel.engine.serve.backend import Unsupported
from whimbrel.engine.serve.run import Settings, read_keys, serve
from whimbrel.sandbox.base.errors import ConfigError, UsageError

from .scripted import Scripted, running, says

KEY = "a-key-of-more-than-sixteen-characters"


def body(**values: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], **values}


def messages(*entries: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": list(entries)}


TOOL = {"type": "function", "function": {"name": "add"}}
RAW: list[tuple[bytes, str]] = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"[]", "must be a JSON object"),
    (b"\xff\xfe{}", "not UTF-8"),
    (b'{"model": "\xc3("}', "not UTF-8"),
    (b'{"a":' * 500 + b"1" + b"}" * 500, "levels deep"),
    (b"[" * 200_000, "levels deep"),
    (b'{"seed": ' + b"9" * 100_000 + b"}", "number that cannot be read"),
    (b'{"temperature": 1e999}', "number that cannot be read"),
    (b'{"temperature": NaN}', "number that cannot be read"),
    (b'{"model": "\\ud800"}', "surrogate"),
]
FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "model is missing"),
    (body(model=7), "model must be a string"),
    (body(messages=[]), "messages must have at least one entry"),
    (body(messages="hi"), "messages must be a list"),
    (messages(5), "messages[0] must be an object"),
    (messages({"role": "robot", "content": ""}), "messages[0].role must be one of"),
    (messages({"role": "user"}), "messages[0].content is missing"),
    (messages({"role": "user", "content": 5}), "messages[0].content must be a string or a list"),
    (messages({"role": "user", "content": [{"type": "input_audio"}]}), "messages[0].content[0].type"),
    (
        messages(
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/x"}}]}
        ),
        "fetches no images",
    ),
    (
        messages(
            {"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,*"}]}
        ),
        "is not base64",
    ),
    (messages({"role": "tool", "tool_call_id": "x", "content": ""}), "answers no call"),
    (
        messages({"role": "assistant", "tool_calls": [{"id": "x"}]}),
        "messages[0].tool_calls[0].function is missing",
    ),
    (body(n=2), "n is not supported"),
    (body(temperature=-1), "temperature must lie between 0 and 2"),
    (body(temperature="hot"), "temperature must be a number"),
    (body(temperature=True), "temperature must be a number"),
    (body(max_tokens=0), "max_tokens must lie between"),
    (body(max_tokens=1.5), "max_tokens must be a whole number"),
    (body(seed=1 << 70), "seed must lie between"),
    (body(stop=[""]), "stop must hold texts"),
    (body(stop=["a"] * 99), "stop must not have more than"),
    (body(stream="yes"), "stream must be true or false"),
    (body(stream_options={"odd": 1}), "stream_options.odd is not supported"),
    (body(top_logprobs=3), "top_logprobs needs logprobs"),
    (body(logit_bias={"x": 1}), "logit_bias must have token ids"),
    (body(functions=[]), "functions is not supported: use tools"),
    (body(brand_new=1), "brand_new is not supported"),
    (body(reasoning_effort="very"), "reasoning_effort must be one of"),
    (body(tools=[TOOL, TOOL]), "'add' more than once"),
    (body(tools=[{"type": "web_search"}]), "tools[0].type is not supported"),
    (body(tools=[{"function": {"name": "a b"}}]), "tools[0].function.name must be"),
    (body(tool_choice="required"), "there are no tools"),
    (body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "sub"}}), "none of the tools"),
    (body(response_format={"type": "json_schema"}), "response_format.json_schema is missing"),
    (body(response_format={"type": "xml"}), "response_format.type must be one of"),
    (body(structured_outputs={"regex": "a", "choice": ["b"]}), "exactly one of"),
]


async def test_bodies_that_are_no_requests_are_refused_in_one_line() -> None:
    async with running(says("ok")) as at:
        for data, part in RAW:
            for path in ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"):
                response = await at.http.post(
                    path, content=data, headers={"content-type": "application/json"}
                )
                message = response.json()["error"]["message"]
                assert response.status_code == 400 and part in message and "\n" not in message, (
                    data[:40],
                    message,
                )
        for value, part in FIELDS:
            response = await at.http.post("/v1/chat/completions", json=value)
            error = response.json()["error"]
            assert response.status_code == 400 and part in error["message"], (value, error)
            assert error["type"] == "invalid_request_error"
        assert at.backend.requests == []
        assert (await at.chat()).status_code == 200


async def test_what_a_backend_cannot_do_is_refused_by_name_before_it_waits() -> None:
    def refuse(_: Any) -> None:
        raise Unsupported("logit_bias", "not by this backend")

    async with running(Scripted(says("ok"), checked=refuse)) as at:
        error = (await at.chat(logit_bias={"5": 1})).json()["error"]
    assert (error["param"], error["code"]) == ("logit_bias", "unsupported_parameter")


async def test_too_large_a_body_is_refused_with_and_without_its_length() -> None:
    async def endless() -> Any:
        for _ in range(64):
            yield b" " * 1024

    json_type = {"content-type": "application/json"}
    async with running(says("ok"), limits=Limits(body_bytes=4096)) as at:
        told = await at.http.post("/v1/chat/completions", content=b" " * 5000, headers=json_type)
        streamed = await at.http.post("/v1/messages", content=endless(), headers=json_type)
        assert (told.status_code, streamed.status_code) == (413, 413)
        assert streamed.json()["error"]["type"] == "request_too_large"
        assert (await at.chat()).status_code == 200


async def test_a_body_that_never_comes_is_not_waited_for() -> None:
    async with running(says("ok"), limits=Limits(patience=Patience(body_s=0.05))) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.http.base_url.port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_headers_without_end_and_nonsense_get_400() -> None:
    async with running(says("ok")) as at:
        for data in (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000,
            b"\x16\x03\x01hello\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", at.http.base_url.port)
            writer.write(data)
            assert b" 400 " in await reader.readline()
            writer.close()
        assert (await at.chat()).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {KEY}"}, 401),
        ({"authorization": f"Bearer {KEY}x"}, 401),
        ({"x-api-key": "\xff"}, 401),
        ({"authorization": f"Bearer {KEY}"}, 200),
        ({"x-api-key": "another-key-which-is-also-long", "origin": "https://app.example"}, 200),
    ],
)
async def test_with_keys_nobody_gets_anything_without_one(headers: dict[str, str], status: int) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    async with running(says("ok"), keys=[KEY, "another-key-which-is-also-long"]) as at:
        for path in ("/v1/models", "/metrics", "/nowhere"):
            response = await at.http.get(path, headers=raw)
            assert response.status_code == (404 if (path, status) == ("/nowhere", 200) else status)
        response = await at.http.post("/v1/messages", headers=raw, json=body(max_tokens=5))
        assert response.status_code == status
        if status == 401:
            assert response.json()["error"]["type"] == "authentication_error"
        assert (await at.http.get("/health")).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({"host": "[::1]:8000", "origin": "http://localhost:3000"}, 200),
    ],
)
async def test_without_keys_no_web_page_can_use_the_server(headers: dict[str, str], status: int) -> None:
    async with running(says("ok")) as at:
        sent = {"content-type": "application/json", **headers}
        response = await at.http.post("/v1/chat/completions", content=json.dumps(body()), headers=sent)
        assert response.status_code == status


async def test_the_log_holds_numbers_and_neither_prompts_nor_keys(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: Any) -> None:
        raise ValueError("SECRET-TEXT")

    async with running(Scripted(says("SECRET-TEXT"), checked=fail), keys=[KEY]) as at:
        at.http.headers["authorization"] = f"Bearer {KEY}"
        at.http.headers["x-request-id"] = "mine-1"
        failed = await at.chat(messages=[{"role": "user", "content": "SECRET-TEXT"}], user="SECRET-TEXT")
        at.backend.checked = lambda _: None
        at.http.headers["x-request-id"] = "no good id"
        fine = await at.chat()
        await at.http.get("/v1/SECRET-TEXT?key=SECRET-TEXT")
        await at.http.get("/health")
    assert failed.headers["x-request-id"] == "mine-1" and fine.headers["x-request-id"] != "no good id"
    text = capsys.readouterr().err
    assert "SECRET" not in text and KEY not in text
    lines = [json.loads(line) for line in text.splitlines()]
    first, second, third = lines
    assert (first["id"], first["status"], first["error"]) == ("mine-1", 500, "internal_error")
    assert first["cause"].startswith("ValueError at ") and first["level"] == "error"
    counts = {name: second[name] for name in ("input_tokens", "cached_tokens", "output_tokens", "finish")}
    assert counts == {"input_tokens": 10, "cached_tokens": 4, "output_tokens": 7, "finish": "stop"}
    assert (third["path"], third["status"]) == ("other", 404)


def test_an_open_address_needs_a_key() -> None:
    with pytest.raises(UsageError, match="no key"):
        serve(Scripted(says("ok")), Settings(host="0.0.0.0"), version="1")


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (f"# mine\n{KEY}\n\n", 0o600, None),
        (KEY, 0o644, "open to others"),
        ("# nothing\n", 0o600, "holds no keys"),
        ("short\n", 0o600, "cannot be used"),
        ("ключ-ключ-ключ-ключ\n", 0o600, "cannot be used"),
    ],
)
def test_key_files_are_looked_at_closely(tmp_path: Path, text: str, mode: int, message: str | None) -> None:
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    if message is None:
        assert read_keys(path) == (KEY,)
        return
    with pytest.raises(ConfigError, match=message) as error:
        read_keys(path)
    assert "short" not in error.value.one_line().replace("too short", "")

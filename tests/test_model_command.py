"""``whimbrel model``: probe, list, login and logout as a person runs them."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.cli import main

from .engine.remote.servers import LIST, able
from .mock_server import MockServer, Reply, Request, completion, error

WHIMBREL = [sys.executable, "-m", "whimbrel.app.cli"]
KEY = "sk-canary-from-a-keyring-77"
FILE_KEYRING = """
import json, pathlib
from keyring.backend import KeyringBackend

FILE = pathlib.Path(__file__).with_name("kept.json")


class Kept(KeyringBackend):
    priority = 1

    def _all(self):
        return json.loads(FILE.read_text()) if FILE.exists() else {}

    def get_password(self, service, username):
        return self._all().get(f"{service} {username}")

    def set_password(self, service, username, password):
        FILE.write_text(json.dumps(self._all() | {f"{service} {username}": password}))

    def delete_password(self, service, username):
        left = self._all()
        del left[f"{service} {username}"]
        FILE.write_text(json.dumps(left))
"""


@dataclass
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Folders and a keyring of its own (the real package, with a backend that keeps its keys in a file)."""
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "file_keyring.py").write_text(FILE_KEYRING)
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "TMPDIR")}
    return kept | {
        "HOME": str(tmp_path),
        "WHIMBREL_STATE_DIR": str(tmp_path / "state"),
        "WHIMBREL_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path / "ring"),
        "PYTHON_KEYRING_BACKEND": "file_keyring.Kept",
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """The command as a process of its own."""

    def command(*arguments: str, stdin: str = "", **more: str) -> Done:
        done = subprocess.run(
            [*WHIMBREL, "model", *arguments],
            env=environment | more, input=stdin, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    return command


@pytest.fixture
def inside(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """The command in this process: the same code in a tenth of the time, without a keyring."""
    for name in ("WHIMBREL_ALLOW_HTTP", *environment):
        monkeypatch.setenv(name, environment.get(name, ""))
    monkeypatch.setattr("whimbrel.engine.remote.credentials._keyring", lambda: None)

    def command(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(["model", *arguments])
        captured = capsys.readouterr()
        return Done(int(ended.value.code or 0), captured.out, captured.err)

    return command


def test_a_probe_is_shown_kept_and_used_and_can_be_asked_for_again(inside: Run, tmp_path: Path) -> None:
    with MockServer(able, documents={"/v1/models": LIST}) as server:
        first = inside("probe", server.url)
        assert first.returncode == 0 and first.stderr == "", first.stderr
        asked = len(server.requests)
        again = inside("probe", f"vllm:big@{server.url}", "--json")
        assert again.returncode == 0 and len(server.requests) == asked
        (kept,) = (tmp_path / "cache" / "endpoints").iterdir()
        kept.write_bytes(b"{ damaged")
        assert (
            inside("probe", server.url, "--model", "big").returncode == 0
            and len(server.requests) == 2 * asked
        )
        assert inside("probe", server.url, "--refresh").returncode == 0 and len(server.requests) == 3 * asked
    lines = first.stdout.splitlines()
    assert lines[0] == f"big at {server.url}, spoken to as vLLM"
    shown = {line[2:28].strip(): line[28:].split()[0] for line in lines[1:]}
    assert shown["context window"] == "40960" and shown["reasoning field"] == "reasoning"
    assert shown["reasoning sent back"] == "required" and shown["images"] == "yes"
    assert shown["cached tokens reported"] == "no"
    facts = json.loads(again.stdout)["facts"]
    assert facts["effort"]["value"] is True and "tokens" in facts["effort"]["how"]


def test_models_are_listed_and_one_of_many_must_be_named(inside: Run) -> None:
    many = {"data": [{"id": f"m{n}\x1b[31m", "context_length": 100 + n} for n in range(30)]}
    with MockServer([], documents={"/v1/models": many}) as server:
        listed = inside("list", server.url.removesuffix("/v1"))
        assert listed.returncode == 0 and "\x1b" not in listed.stdout
        assert len(listed.stdout.splitlines()) == 30 and listed.stdout.splitlines()[3].endswith("103")
        asked = inside("probe", server.url)
        assert asked.returncode == 2 and "--model NAME" in asked.stderr and "10 more" in asked.stderr
        assert [
            json.loads(line)["context_window"]
            for line in inside("list", server.url, "--json").stdout.splitlines()
        ][:2] == [100, 101]
        assert server.requests == []


def _listing(reply: Reply) -> dict[str, Any]:
    return {"/v1/models": reply}


@pytest.mark.parametrize(
    ("documents", "code", "said"),
    [
        (_listing(Reply([b"<html><title>Router login</title>"])), 8, "a web page came instead of an answer: Router login"),
        (_listing(error(401, {"error": {"message": "who are you"}})), 8, "HTTP 401: who are you"),
        (_listing(error(200, {"data": []})), 2, "the server lists no models"),
        (None, 8, "no connection"),
    ],
)  # fmt: skip
def test_wrong_servers_are_one_clear_line(inside: Run, documents: Any, code: int, said: str) -> None:
    with MockServer([], documents=documents) as server:
        url = server.url
        done = inside("probe", url) if documents is not None else None
    done = done or inside("probe", url)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["probe", "gpu-box"], 2, "no address"),
        (["probe", "ftp://x/v1"], 10, "not an http(s) address"),
        (["probe", "http://[::1/v1"], 10, "not an http(s) address"),
        (["probe", "https://me:secret-word@x/v1"], 10, "holds credentials"),
        (["list", "http://gpu.invalid:8000/v1"], 10, "--allow-http"),
        (["list", "http://gpu.invalid:8000/v1", "--allow-http"], 8, "no connection"),
        (["probe", "deepseek:x"], 10, "DEEPSEEK_API_KEY"),
    ],
)
def test_bad_addresses_are_refused_before_anything_is_sent(
    inside: Run, arguments: list[str], code: int, said: str
) -> None:
    done = inside(*arguments)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert "secret-word" not in done.stderr and len(done.stderr.splitlines()) <= 4


def test_a_key_typed_at_a_terminal_is_not_shown_and_is_used_and_forgotten(
    environment: dict[str, str], run: Run, tmp_path: Path
) -> None:
    seen: list[str] = []

    def server_script(request: Request) -> Reply:
        seen.append(request.headers["authorization"])
        return error(401, {"error": {"message": f"the key {KEY} is not known here"}})

    with MockServer(server_script, documents={"/v1/models": LIST}) as server:
        host = server.url.split("/")[2]
        shown = at_a_terminal([*WHIMBREL, "model", "login", host], environment, f"{KEY}\n")
        assert f"API key for {host} (not shown)" in shown and "is in the system's keyring" in shown
        assert KEY not in shown
        probe = run("probe", server.url)
        assert set(seen) == {f"Bearer {KEY}"}
        assert probe.returncode == 8 and KEY not in probe.stderr and "[redacted:key of" in probe.stderr
        assert run("probe", server.url, WHIMBREL_API_KEY="k-of-the-environment").returncode == 8
        assert seen[-1] == "Bearer k-of-the-environment"
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "kept.json":
            assert KEY.encode() not in path.read_bytes(), path
    assert run("logout", host).returncode == 0
    gone = run("logout", f"http://{host}/v1")
    assert gone.returncode == 1 and "no key" in gone.stderr


def at_a_terminal(command: list[str], environment: dict[str, str], typed: str) -> str:
    """Runs a command at a pseudo-terminal, types once it asks, and gives all that was on the screen."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, environment)
    shown, sent, until = b"", False, time.monotonic() + 60
    try:
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
            if not sent and b"not shown" in shown:
                os.write(terminal, typed.encode())
                sent = True
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    return shown.decode()


@pytest.mark.parametrize("key", ["", "two\x01keys", "ключ-ключ-ключ"])
def test_what_is_no_key_is_not_kept(run: Run, key: str, tmp_path: Path) -> None:
    done = run("login", "host.example", stdin=f"{key}\n")
    assert done.returncode == 10 and "no API key" in done.stderr
    assert not (tmp_path / "ring" / "kept.json").exists()


def test_a_keyring_that_does_not_work_is_told_with_another_way_and_hinders_no_run(run: Run) -> None:
    broken = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    done = run("login", "host.example", stdin=f"{KEY}\n", **broken)
    assert done.returncode == 10 and "keyring does not work here" in done.stderr
    assert "WHIMBREL_API_KEY" in done.stderr and KEY not in done.stderr
    with MockServer([completion(text="x")], documents={"/v1/models": LIST}) as server:
        assert run("list", server.url, **broken).returncode == 0

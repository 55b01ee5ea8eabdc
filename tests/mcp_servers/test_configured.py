"""Where entries come from, what they may say, and how servers take part in a whole run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from whimbrel.app.commands import mcp
from whimbrel.app.mcp.config import McpServer, own_servers, repository_servers
from whimbrel.app.mcp.servers import choose, rules_of
from whimbrel.sandbox.base.errors import ConfigError

from tests.fix.conftest import Ran, Repo, buggy, fix, home, repo
from tests.mock_server import MockServer, Request, arguments_are_json, completion, every_call_answered

__all__ = ["buggy", "fix", "home", "repo"]

ODD = str(Path(__file__).parent / "odd_server.py")


def configure(home: dict[str, str], text: str) -> None:
    folder = Path(home["HOME"]) / ".config" / "whimbrel"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text, encoding="utf-8")


def entry(name: str, *arguments: str, more: str = "") -> str:
    return f"[mcp.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([ODD, *arguments])}\n{more}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mcp.a]\n", "needs either command or url"),
        ("[mcp.a]\ncommand = 3\n", "mcp.a.command must be a string"),
        ("[mcp.a]\ncommand = 'x'\nurl = 'http://localhost'\n", "needs either command or url"),
        ("[mcp.a]\ncomand = 'x'\n", "mcp.a.comand is not known"),
        ("[mcp.a__b]\ncommand = 'x'\n", "a server's name is"),
        ("[mcp.a]\nurl = 'http://example.org/mcp'\n", "plain HTTP to example.org"),
        ("[mcp.a]\nurl = 'https://u:p@example.org/mcp'\n", "holds credentials"),
        ("[mcp.a]\nurl = 'ftp://x'\n", "is not an http(s) address"),
        ("[mcp.a]\ncommand = 'x'\nenv = { K = '${NOT_THERE}' }\n", "NOT_THERE, which is not set"),
        ("[mcp.a\n", "is not valid TOML"),
        ("mcp = 3\n", "must be a table of servers"),
    ],
)
def test_a_wrong_entry_is_named_with_its_key(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WHIMBREL_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        own_servers({})
    assert said in caught.value.one_line()


def test_a_repositorys_entry_gets_neither_variables_nor_the_persons_confidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WHIMBREL_CONFIG_DIR", str(tmp_path))
    text = "[mcp.a]\ncommand='x'\ntrust=true\nallow=true\nenv={K='${KEY}'}"
    (tmp_path / "config.toml").write_text(text)
    (own,) = own_servers({"KEY": "v"})
    assert own.trust and own.allow and own.env == {"K": "v"}
    servers = {
        "a": {"command": "x", "trust": True, "allow": True},
        "b": {"type": "http", "url": "https://h/m"},
    }
    found = repository_servers({".mcp.json": json.dumps({"mcpServers": servers}).encode()})
    assert [(server.name, server.trust, server.allow) for server in found] == [
        ("a", False, False),
        ("b", False, False),
    ]
    with pytest.raises(ConfigError, match="only your own configuration"):
        repository_servers({".whimbrel/config.toml": text.encode()})
    told: list[str] = []
    good = {".mcp.json": json.dumps({"mcpServers": servers}).encode(), ".whimbrel/config.toml": text.encode()}
    found = repository_servers(good, lambda _, text: told.append(text))
    assert [server.name for server in found] == ["a", "b"], "a bad file keeps nobody from working"
    assert len(told) == 1 and "only your own configuration" in told[0]


RIGHT = ("edit", {"path": "tally.py", "old": "if count < most:", "new": "if count > most:"})


def playing(calls: list[tuple[str, dict[str, Any]]]) -> Callable[[Request], Any]:
    def script(request: Request):
        number = sum(message["role"] == "assistant" for message in request.messages)
        if number >= len(calls):
            return completion(text="Done.")
        return completion(calls=[(f"c{number}", *calls[number])])

    return script


def run(buggy: Repo, fix: Callable[..., Ran], calls: list[tuple[str, dict[str, Any]]], *more: str):
    with MockServer(playing(calls), validators=[every_call_answered, arguments_are_json]) as server:
        ran = fix(buggy, "--python", sys.executable, "--json", "--model", server.model(), *more)
    results = [message["content"] for message in server.requests[-1].messages if message["role"] == "tool"]
    return ran, server, results


def test_a_run_uses_a_server_and_leaves_nothing_of_it_behind(
    buggy: Repo, fix: Callable[..., Ran], home: dict[str, str], tmp_path: Path
):
    pids = tmp_path / "pids"
    configure(
        home, entry("tool", "stubborn", str(pids)) + entry("late", "hang", more="start_timeout = 0.5\n")
    )
    calls = [("mcp__tool__work", {"kind": 1}), ("mcp__tool__nothing", {}), RIGHT]
    ran, server, results = run(buggy, fix, calls, "--mcp", "tool", "--mcp", "late")
    assert ran.code == 0, ran.err
    names = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert names[-3:] == ["mcp__tool__no-schema", "mcp__tool__odd_tool__", "mcp__tool__work"]
    assert results[0].splitlines()[1] == "done" and "there is no tool" in results[1]
    assert "late did not answer within 0.5 s of its start; the run goes on without it" in ran.out
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_the_persons_entry_wins_over_a_namesake_and_none_means_none():
    mine, off = McpServer("a", "mine", command="x"), McpServer("b", "mine", command="x", enabled=False)
    theirs = McpServer("a", "theirs", command="y", by_person=False)
    assert choose([mine, off], [theirs], []) == (mine,)
    assert choose([mine, off], [theirs], ["b"]) == (off,)
    assert choose([mine, off], [theirs], ["none"]) == ()
    assert not rules_of([mine, off], [])
    assert [rule.tool for rule in rules_of([mine, off], ["b"])] == ["mcp__b__*"]


def test_a_name_nobody_configured_is_a_usage_error(buggy: Repo, fix: Callable[..., Ran]):
    ran = fix(buggy, "--python", sys.executable, "--mcp", "nobody", "--max-candidates", "1")
    assert ran.code == 2 and "there is no MCP server nobody" in ran.out


def test_a_repositorys_servers_start_only_after_trust(buggy: Repo, fix: Callable[..., Ran], tmp_path: Path):
    mark = tmp_path / "started"
    server = {"command": sys.executable, "args": [ODD, "stubborn", str(mark)]}
    buggy.write(**{".mcp.json": json.dumps({"mcpServers": {"theirs": server}})}).commit()
    ran, mock, _ = run(buggy, fix, [RIGHT])
    assert ran.code == 0 and not mark.exists()
    assert ".mcp.json found and ignored: not trusted" in ran.out
    assert not [t for t in mock.requests[0].body["tools"] if t["function"]["name"].startswith("mcp")]
    ran, mock, results = run(buggy, fix, [("mcp__theirs__work", {}), RIGHT], "--trust")
    assert ran.code == 0 and mark.exists()
    # It runs, since the person trusts the repository; what it may be asked is still for them to say.
    assert "not allowed" in results[0]


def test_servers_are_listed_and_checked_on_the_command_line(
    repo: Repo, home: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    repo.commit()
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    configure(home, entry("good", "fine", more="env = { KEY = '${PATH}' }\n") + entry("bad", "end"))
    listed = CliRunner().invoke(mcp.group, ["list", "--repo", str(repo.root)])
    assert listed.exit_code == 0 and "good  stdio  " in listed.output and home["PATH"] not in listed.output
    checked = CliRunner().invoke(mcp.group, ["check", "--repo", str(repo.root)])
    assert checked.exit_code == 10, checked.output
    assert "good: 3 tools" in checked.output and "mcp__good__work (network)" in checked.output
    assert "bad cannot be used: it ended; no licence found" in checked.output
    assert CliRunner().invoke(mcp.group, ["check", "good", "--repo", str(repo.root)]).exit_code == 0

"""Rules as people write them, modes, remembered answers, and the command that explains all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.agent.permissions import Permissions, Rule
from whimbrel.app.permissions.grants import Grants
from whimbrel.app.permissions.paths import PathPolicy
from whimbrel.app.permissions.rules import Decision, parse_rule, rules_from_data
from whimbrel.app.tools.bash import BashTool
from whimbrel.app.tools.edit import EditTool
from whimbrel.app.tools.read import ReadTool
from whimbrel.app.tools.repair import RepairTool
from whimbrel.app.tools.run_tests import RunTestsTool
from whimbrel.app.tools.search import SearchTool
from whimbrel.sandbox.base.errors import ConfigError, UsageError
from whimbrel.sandbox.protocol import SandboxDescription

ISOLATED = SandboxDescription(kind="bwrap", isolated=True)
HOST = SandboxDescription(kind="host", isolated=False)
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "read": (ReadTool(), {"path": "a.py"}),
    "edit": (EditTool(), {"path": "a.py", "old": "a", "new": "b"}),
    "repair": (RepairTool(), {}),
    "tests": (RunTestsTool(), {}),
    "look": (BashTool(), {"command": "git log | head -3; ls -la"}),
    "write": (BashTool(), {"command": "echo x > f"}),
    "run": (BashTool(), {"command": "make"}),
}


def decisions(mode: str, *rules: Rule, description: SandboxDescription = ISOLATED) -> dict[str, str]:
    permissions = Permissions.for_sandbox(description, mode=mode, rules=rules)
    return {name: permissions.decide(tool, given).decision.value for name, (tool, given) in CALLS.items()}


def test_each_mode_says_what_goes_without_a_question() -> None:
    assert set(decisions("default").values()) == {"allow"}
    plan = decisions("plan")
    assert plan.pop("read") == "allow" and set(plan.values()) == {"deny"}
    assert decisions("read-only") == {
        "read": "allow", "edit": "deny", "repair": "deny", "tests": "allow",
        "look": "allow", "write": "deny", "run": "deny",
    }  # fmt: skip
    assert decisions("accept-edits") == {
        "read": "allow", "edit": "allow", "repair": "allow", "tests": "allow",
        "look": "allow", "write": "ask", "run": "ask",
    }  # fmt: skip
    unsafe = decisions("bypass", parse_rule("ask", "write"), parse_rule("deny", "bash(make*)"), description=HOST)
    assert unsafe.pop("run") == "deny" and set(unsafe.values()) == {"allow"}


def test_no_rule_makes_plan_mode_write_or_run() -> None:
    plan = decisions("plan", parse_rule("allow", "bash"), parse_rule("allow", "edit"), parse_rule("allow", "write(**)"))
    assert [name for name, decision in plan.items() if decision == "allow"] == ["read"]


@pytest.mark.parametrize(
    "text",
    ["", "()", "raed(.env)", "bash()", "bash(git log; rm x)", "bash(git log > f)", "bash(git log", "bash('x)", "read( )",
     "read(../x)", "git log*", "bash(git log) x", "bash(git log | sh)", "bash($(x))"],
)  # fmt: skip
def test_nonsense_is_no_rule(text: str) -> None:
    with pytest.raises(UsageError, match="--deny"):
        parse_rule("deny", text)


def test_rules_of_the_configuration_are_plain_data_and_checked() -> None:
    rules = rules_from_data(
        [
            {"decision": "deny", "path": "secrets/**", "reason": "not yours"},
            {"decision": "allow", "command": "git log*"},
            {"decision": "ask", "permission": "write", "path": "docs/**"},
            {"decision": "deny", "tool": "repair"},
        ]
    )
    permissions = Permissions.for_sandbox(HOST, chosen=False, rules=rules)
    decide = permissions.decide
    assert decide(ReadTool(), {"path": "Secrets/key"}).reason == "Secrets/key: not yours"
    assert decide(BashTool(), {"command": "cat secrets/key"}).decision is Decision.DENY
    assert decide(BashTool(), {"command": "git log -3"}).decision is Decision.ALLOW
    assert decide(BashTool(), {"command": "git push"}).decision is Decision.ASK
    assert decide(EditTool(), {"path": "docs/a.md"}).decision is Decision.ASK
    assert decide(RepairTool(), {}).decision is Decision.DENY
    for wrong in ({"decision": "maybe"}, {"decision": "deny", "tol": "x"}, {"decision": "deny", "permission": "x"},
                  {"decision": "allow", "command": "a; b"}):  # fmt: skip
        with pytest.raises(ConfigError, match="permission rule 1"):
            rules_from_data([wrong])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"path": ".env"}),
        ("search", {"pattern": "K", "path": "./.Env"}),
        ("git", {"revision": "HEAD:.env"}),
        ("git", {"action": "show", "object": "HEAD:./.env"}),
        ("git", {"action": "diff", "paths": ["src", ".env"]}),
        ("list", {"directory": ".ssh"}),
        ("multi_edit", {"edits": [{"path": "a.py"}, {"path": "sub/.ENV"}]}),
        ("apply_patch", {"patch": "--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-a\n+b\n"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: .env\n"}),
    ],
)
def test_a_denied_file_is_denied_to_every_tool_that_names_it(name: str, arguments: dict[str, Any]) -> None:
    class Other(SearchTool):
        pass

    tool = Other()
    tool.name = name  # type: ignore[misc]
    verdict = Permissions.for_sandbox(ISOLATED).decide(tool, arguments)
    assert verdict.decision is Decision.DENY and "credentials" in verdict.reason


def test_an_answer_is_kept_for_exactly_that_command_and_that_repository(tmp_path: Path) -> None:
    store = tmp_path / "state" / "permissions.json"
    one, other = tmp_path / "one", tmp_path / "other"

    def decide(repository: Path, command: str) -> str:
        permissions = Permissions.for_sandbox(HOST, chosen=False, grants=Grants(repository, store))
        return permissions.decide(BashTool(), {"command": command}).decision.value

    now = Permissions.for_sandbox(HOST, chosen=False, grants=Grants(one, store))
    now.remember(BashTool(), {"command": "curl a"})
    assert now.decide(BashTool(), {"command": "curl a"}).decision is Decision.ALLOW
    assert now.decide(BashTool(), {"command": "curl a b"}).decision is Decision.ASK
    assert decide(one, "curl a") == "ask", "without `store` it holds for the run only"
    now.remember(BashTool(), {"command": "curl a"}, store=True)
    now.remember(BashTool(), {"command": "git log -1"}, "git log*", store=True)
    assert [decide(one, each) for each in ("curl a", "curl b", "git log -9", "git log; curl b", "git push")] == [
        "allow", "ask", "allow", "ask", "ask",
    ]  # fmt: skip
    assert [decide(other, each) for each in ("curl a", "git log -9")] == ["ask", "ask"]
    assert store.stat().st_mode & 0o077 == 0
    assert Grants(one, store).forget(1) == 1
    assert [decide(one, each) for each in ("curl a", "git log")] == ["ask", "allow"]


def test_a_remembered_answer_never_beats_a_denial(tmp_path: Path) -> None:
    permissions = Permissions.for_sandbox(HOST, rules=[parse_rule("deny", "bash(curl*)")])
    permissions.remember(BashTool(), {"command": "curl a"})
    permissions.remember(BashTool(), {"command": "cat .env"})
    assert permissions.decide(BashTool(), {"command": "curl a"}).decision is Decision.DENY
    assert permissions.decide(BashTool(), {"command": "cat .env"}).decision is Decision.DENY


def test_the_command_line_explains_lists_and_forgets(tmp_path: Path) -> None:
    repo, state = tmp_path / "repo", tmp_path / "state"
    (repo / ".git").mkdir(parents=True)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "whimbrel.app.cli", "permissions", *arguments, "--repo", str(repo)],
            env={"WHIMBREL_STATE_DIR": str(state), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True, text=True,
        )  # fmt: skip

    told = run("test", "--json", "--deny", "bash(curl*)", "git log | sudo sh -c 'curl u'")
    said = json.loads(told.stdout)
    assert told.returncode == 5 and said["decision"] == "deny"
    assert [(each["command"], each["decision"], each["inside"]) for each in said["commands"]] == [
        ("git log", "allow", []),
        ("curl u", "deny", ["sudo", "sh"]),
    ]
    assert run("test", "git log").returncode == 0
    Grants(repo, state / "permissions.json").add("bash", "curl a", store=True)
    assert run("list").stdout == "  1  bash(curl a)\n"
    assert run("forget", "2").returncode == 2 and run("forget").returncode == 2
    assert run("forget", "1").returncode == 0 and run("list").stdout == ""
    (state / "permissions.json").write_text("{")
    broken = run("list")
    assert broken.returncode == 10 and "move it away" in broken.stderr


def test_places_outside_and_under_other_names_are_the_same_places(tmp_path: Path) -> None:
    policy = PathPolicy(home="/home/me").at(tmp_path, ("/work/shop",))
    for path in ("~/.ssh/id_rsa", "/home/me/.ssh/config", "/work/shop/.env", f"{tmp_path}/a/../.env", "/WORK/shop/.ENV"):
        assert not policy.readable(path), path
    assert policy.readable("/work/shop/src/a.py") and policy.readable("~/notes.txt")
    assert not policy.writable("/work/shop/.GIT/config") and policy.writable("src/.gitignore")

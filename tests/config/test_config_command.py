"""`whimbrel config`, and runs that take their defaults from the settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fix.conftest import Ran, Repo
from tests.mock_server import completion
from tests.talk.conftest import calc, home, repo, server, talk, whimbrel

__all__ = ["calc", "home", "repo", "talk", "whimbrel"]

Whimbrel = Callable[..., subprocess.CompletedProcess[str]]


def test_values_are_shown_with_their_origin_set_got_and_taken_out(tmp_path: Path, whimbrel: Whimbrel):
    here = {"WHIMBREL_CONFIG_DIR": str(tmp_path / "c")}
    path = whimbrel("config", "path", **here).stdout.strip()
    assert whimbrel("config", "set", "limits.steps", "7", **here).returncode == 0
    assert whimbrel("config", "get", "limits.steps", **here).stdout == "7\n"
    shown = whimbrel("config", "show", "--origin", **here).stdout.splitlines()
    assert f"limits.steps = 7  # user {path}" in shown and "hook.apply = false  # default" in shown
    as_json = json.loads(whimbrel("config", "show", "--json", "--origin", **here).stdout)
    assert as_json["limits.steps"] == {"value": 7, "origin": f"user {path}"}
    assert whimbrel("config", "set", "limits.steps", "x", **here).returncode == 2
    assert whimbrel("config", "set", "no.such", "x", **here).returncode == 2
    assert whimbrel("config", "unset", "limits.steps", **here).returncode == 0
    assert whimbrel("config", "get", "limits.steps", **here).stdout == "100\n"
    Path(path).write_text("[limits\n")
    broken = whimbrel("config", "show", **here)
    assert broken.returncode == 10 and f"{path}, line 1, column 8" in broken.stderr
    assert len(broken.stderr.strip().splitlines()) == 1
    assert whimbrel("config", "path", **here).returncode == 0
    assert whimbrel("config", "restore", **here).returncode == 0
    assert whimbrel("config", "get", "limits.steps", **here).stdout == "7\n"


def test_a_folder_of_settings_that_leads_out_of_the_repository_is_not_written_to(
    calc: Repo, tmp_path: Path, whimbrel: Whimbrel
):
    (tmp_path / "outside").mkdir()
    (calc.root / ".whimbrel").symlink_to(tmp_path / "outside")
    done = whimbrel("config", "set", "limits.steps", "3", "--project", "--repo", str(calc.root))
    assert done.returncode == 2 and "leads out of the repository" in done.stderr
    assert not list((tmp_path / "outside").iterdir())


def test_a_run_takes_what_it_was_not_told_from_the_settings(
    calc: Repo, talk: Callable[..., Ran], tmp_path: Path
):
    (tmp_path / "c").mkdir()
    with server(lambda _: completion(text="Hi.", usage=(60, 1))) as model:
        (tmp_path / "c/config.toml").write_text(
            f"[model]\nname = '{model.model('set')}'\n[effort]\ndefault = 'low'\n[limits]\ncost_usd = 1\n"
            f"[prices.'{model.model('set').split('@')[0]}']\ninput = 1e6\noutput = 1e6\n"
            f"[profiles.other.model]\nname = '{model.model('other')}'\nunknown = 1\n"
        )
        here = {"WHIMBREL_CONFIG_DIR": str(tmp_path / "c")}
        ran = talk(calc, "hello", **here)
        assert (ran.code, ran.result["effort"], model.requests[-1].body["model"]) == (0, "low", "set"), (
            ran.err
        )
        assert "unknown key profiles.other.model.unknown is kept" in ran.err
        ran = talk(calc, "hello", "--profile", "other", "--effort", "max", **here)
        assert (ran.result["effort"], model.requests[-1].body["model"]) == ("max", "other")
    loop = completion(calls=[("c", "read", {"path": "calc.py"})], usage=(60, 1))
    with server([loop, loop]) as model:
        ran = talk(calc, "x", "--model", model.model("set"), **here)
        assert (ran.code, ran.result["status"]) == (6, "budget") and "$61.00 of $1.00" in ran.err


@pytest.mark.parametrize("command", ["fix-issue", "run"])
def test_a_malformed_file_ends_a_run_with_10_and_a_result(
    calc: Repo, tmp_path: Path, whimbrel: Whimbrel, command: str
):
    (tmp_path / "c").mkdir()
    (tmp_path / "c/config.toml").write_text("[limits]\nsteps = [\n")
    prompt = ["hello"] if command == "run" else []
    done = whimbrel(
        command, *prompt, "--repo", str(calc.root), "--output", str(tmp_path / "out"),
        WHIMBREL_CONFIG_DIR=str(tmp_path / "c"),
    )  # fmt: skip
    assert done.returncode == 10, done.stdout + done.stderr
    result = json.loads((tmp_path / "out/result.json").read_text())
    assert result["status"] == "configuration" and "config.toml, " in result["message"]


def test_fix_issue_and_locate_take_their_limits_and_sandbox_from_the_settings(
    calc: Repo, tmp_path: Path, whimbrel: Whimbrel
):
    common = ["--repo", str(calc.root), "--python", sys.executable, "-c", "sandbox.kind=host", "--no-build"]
    done = whimbrel("fix-issue", *common, "--output", str(tmp_path / "out"), WHIMBREL_LIMITS__STEPS="1")
    result = json.loads((tmp_path / "out/result.json").read_text())
    assert (done.returncode, result["status"], result["sandbox"]["kind"]) == (6, "budget", "host"), (
        done.stdout
    )
    done = whimbrel("locate", *common, "--issue", "x", WHIMBREL_SANDBOX__KIND="nowhere")
    assert done.returncode == 10 and "WHIMBREL_SANDBOX__KIND" in done.stderr


@pytest.mark.parametrize("command", ["fix-issue", "run"])
def test_a_rule_of_the_settings_holds_in_every_door(
    calc: Repo, tmp_path: Path, whimbrel: Whimbrel, command: str
):
    (tmp_path / "c").mkdir()
    (tmp_path / "c/config.toml").write_text("[[permissions.rules]]\ndecision = 'deny'\ntool = 'bash'\n")
    prompt = ["do it"] if command == "run" else []
    with server(lambda _: completion(calls=[("c1", "bash", {"command": "touch made"})])) as model:
        done = whimbrel(
            command, *prompt, "--repo", str(calc.root), "--python", sys.executable, "--sandbox", "host",
            "--no-build", "--model", model.model(), "--output", str(tmp_path / "out"),
            WHIMBREL_CONFIG_DIR=str(tmp_path / "c"),
        )  # fmt: skip
    result = json.loads((tmp_path / "out/result.json").read_text())
    assert (done.returncode, result["status"], result["files"]) == (5, "denied", []), (
        done.stdout + done.stderr
    )


def test_a_rule_that_cannot_be_understood_stops_the_run(calc: Repo, talk: Callable[..., Ran]):
    with server([]) as model:
        wrong = 'permissions.rules=[{decision="deny", tol="bash"}]'
        ran = talk(calc, "x", "--model", model.model(), "-c", wrong)
        assert (ran.code, model.requests) == (10, []) and "tol" in ran.err

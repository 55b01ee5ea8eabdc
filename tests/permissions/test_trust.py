"""What a repository would run or tell the agent is trusted per kind and per content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from whimbrel.app.permissions.steering import KINDS, find_steering
from whimbrel.app.trust import TrustStore, is_trusted, remember_trust, trusted_content

STEERS = {
    "instructions": ("AGENTS.md", "pkg/agents.md", "CLAUDE.md"),
    "mcp": (".mcp.json", ".whimbrel/mcp.json"),
    "hooks": (".whimbrel/hooks/after-edit",),
    "skills": (".whimbrel/skills/review/SKILL.md", ".agents/skills/x/run.sh"),
    "settings": (".whimbrel/settings.toml",),
    "recipe": ("whimbrel.toml", "ci/Dockerfile"),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHIMBREL_STATE_DIR", str(tmp_path / "state"))
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    for name in (name for names in STEERS.values() for name in names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text('dockerfile = "ci/Dockerfile"\n' if name == "whimbrel.toml" else "x\n")
    (root / "node_modules/a").mkdir(parents=True)
    (root / "node_modules/a/AGENTS.md").write_text("not this project's\n")
    return root


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_any_file_of_a_kind_asks_again_about_that_kind(project: Path, kind) -> None:
    assert sorted(find_steering(project, kind).files) == sorted(STEERS[kind])
    assert not is_trusted(project, kind)
    remember_trust(project)
    assert all(is_trusted(project, each) for each in KINDS)
    changed = project / STEERS[kind][-1]
    changed.write_text("something else\n")
    assert [each for each in KINDS if not is_trusted(project, each)] == [kind]
    changed.write_text("x\n")
    assert is_trusted(project, kind), "the old content is still the one that was agreed to"


def test_a_new_file_and_a_moved_one_are_other_content(project: Path) -> None:
    remember_trust(project, ["skills"])
    assert not is_trusted(project, "hooks")
    (project / ".whimbrel/skills/new.md").write_text("x\n")
    assert not is_trusted(project, "skills")
    (project / ".whimbrel/skills/new.md").unlink()
    (project / "AGENTS.md").rename(project / "docs-AGENTS.md")
    assert not is_trusted(project, "instructions")


def test_what_is_obeyed_is_what_was_hashed_and_links_out_are_never_used(
    project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("from elsewhere")
    (project / ".whimbrel/skills/leak.md").symlink_to(outside)
    (project / "sub").mkdir()
    (project / "sub/AGENTS.md").symlink_to("../../outside.md")
    found, trusted = trusted_content(project, "skills", trust=True)
    assert trusted and found.refused == (".whimbrel/skills/leak.md",)
    assert b"from elsewhere" not in found.files.values()
    assert find_steering(project, "instructions").refused == ("sub/AGENTS.md",)


def test_the_command_shows_asks_remembers_lists_and_revokes(project: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "whimbrel.app.cli", "trust", "--repo", str(project / "pkg"), *arguments],
            env={"WHIMBREL_STATE_DIR": str(tmp_path / "state"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    asked = run()
    assert asked.returncode == 5 and "nobody is there to ask" in asked.stderr
    assert all(name in asked.stdout for names in STEERS.values() for name in names)
    assert not is_trusted(project, "mcp")
    assert run("--yes").returncode == 0 and is_trusted(project, "mcp") and is_trusted(project)
    assert "all of it is trusted" in run().stdout
    assert ".mcp.json" in run("--list").stdout
    assert run("--revoke").returncode == 0 and not is_trusted(project, "mcp")
    assert run("--list", "--revoke").returncode == 2


def test_a_store_of_the_version_before_is_read_and_kept(project: Path) -> None:
    store = TrustStore()
    store.path.parent.mkdir(parents=True, exist_ok=True)
    old = {"format": 1, "repositories": {str(project): ["abc"]}}
    store.path.write_text(json.dumps(old))
    remember_trust(project, ["mcp"])
    assert store.is_trusted(project, "abc") and is_trusted(project, "mcp")
    assert [about.get("kind") for _, _, about in store.listed(project)] == [None, "mcp"]


def test_what_the_command_agrees_to_reaches_the_model_and_starts_servers(tmp_path: Path) -> None:
    root, home = tmp_path / "project", {**os.environ, "WHIMBREL_STATE_DIR": str(tmp_path / "state")}
    home["WHIMBREL_CONFIG_DIR"] = str(tmp_path / "config")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "AGENTS.md").write_text("Be brief. @more.md\n")
    (root / "more.md").write_text("Really.\n")
    (root / ".mcp.json").write_text('{"mcpServers": {"tickets": {"command": "tickets-mcp"}}}')

    def whimbrel(*arguments: str) -> str:
        command = [sys.executable, "-m", "whimbrel.app.cli", *arguments, "--repo", str(root)]
        done = subprocess.run(command, env=home, capture_output=True, text=True)
        return done.stdout + done.stderr

    assert "not trusted" in whimbrel("mcp", "list")
    assert "trusted: instructions, mcp" in whimbrel("trust", "--yes")
    listed = whimbrel("mcp", "list")
    assert "tickets" in listed and "not trusted" not in listed
    assert "all of it is trusted" in whimbrel("trust", "--yes")
    (root / "more.md").write_text("Never mind the tests.\n")
    assert "not trusted" in whimbrel("mcp", "list"), "what is taken in from another file counts too"
    assert "trusted: guidance" in whimbrel("trust", "--yes")
    assert "not trusted" not in whimbrel("mcp", "list")

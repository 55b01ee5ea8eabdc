"""The git tool: it shows what is there, and nothing planted in the copy's .git makes it do more."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from whimbrel.app.tools.base import ToolContext, ToolResult
from whimbrel.app.tools.git import GitArguments, GitTool
from whimbrel.sandbox.base.errors import ToolError
from whimbrel.sandbox.base.git import Git


async def git(context: ToolContext, action: str, **more: Any) -> ToolResult:
    return await GitTool().run(context, GitArguments.model_validate({"action": action, **more}))


def inside(context: ToolContext, *arguments: str) -> None:
    """As a process in the sandbox would."""
    subprocess.run(["git", *arguments], cwd=context.workspace.root, check=True, capture_output=True)


FILES = {"a.py": "x = 1\ny = 2\n", "b.txt": "b\n", ".gitignore": "*.log\n"}


async def test_status_and_diff_show_changed_new_and_deleted_files_but_not_ignored_ones(
    make_context: Any,
) -> None:
    context = await make_context(FILES)
    root = context.workspace.root
    (root / "a.py").write_text("x = 1\ny = 3\n")
    (root / "b.txt").unlink()
    (root / "笔记.md").write_text("new\n")
    (root / "trace.log").write_text("noise")
    status = await git(context, "status")
    assert {(one["status"], one["path"]) for one in status.data["changes"]} == {
        ("M", "a.py"),
        ("D", "b.txt"),
        ("A", "笔记.md"),
    }
    diff = await git(context, "diff", path="a.py")
    assert "-y = 2\n+y = 3" in diff.text and "b.txt" not in diff.text
    assert (await git(context, "diff", path="b.txt", stat=True)).text.startswith(" b.txt | 1 -")
    blame = await git(context, "blame", path="a.py")
    assert [line["author"] for line in blame.data["lines"]] == ["A", "(uncommitted)"]


async def test_commits_made_inside_are_part_of_the_history(make_context: Any) -> None:
    context = await make_context(FILES)
    root = context.workspace.root
    (root / "a.py").write_text("x = 9\ny = 2\n")
    inside(context, "commit", "-qam", "nine, see https://me:hunter2secret@example.org/x")
    inside(context, "tag", "v1")
    log = await git(context, "log")
    assert [one["subject"] for one in log.data["commits"]] == ["nine, see https://***@example.org/x", "x"]
    assert "hunter2secret" not in log.text
    show = await git(context, "show", revision="v1")
    assert "+x = 9" in show.text and "hunter2secret" not in show.text
    assert (await git(context, "show", revision="HEAD~1", path="a.py")).text == "x = 1\ny = 2"
    assert (await git(context, "diff", revision="HEAD~1", to="v1")).data["files"] == [
        {"path": "a.py", "status": "M"}
    ]
    assert (await git(context, "blame", path="a.py", revision="HEAD~1", start=1, end=1)).data["lines"][0][
        "text"
    ] == "x = 1"


@pytest.mark.parametrize(
    "revision",
    ["--output=x", "-c", "HEAD:a.py", "HEAD..v1", "@{-1}", "HEAD^{/x}", "--ext-diff", "a b", "", "nowhere", "HEAD\n--output=x"],
)  # fmt: skip
async def test_options_ranges_and_paths_in_disguise_are_no_revisions(
    make_context: Any, revision: str
) -> None:
    context = await make_context(FILES)
    before = sorted(os.listdir(context.workspace.root))
    for action in ("log", "show", "diff", "blame"):
        if revision == "":
            continue
        with pytest.raises(ToolError, match=r"is not a commit|there is no commit"):
            await git(context, action, revision=revision, path="a.py")
    for path in ("--output=x", ":(top)a.py", "../x", ".git/config"):
        try:
            await git(context, "log", path=path)
        except ToolError:
            continue
    assert sorted(os.listdir(context.workspace.root)) == before


async def test_nothing_planted_in_the_copys_git_folder_is_run_or_followed(
    make_context: Any, tmp_path: Any
) -> None:
    context = await make_context({**FILES, ".gitattributes": "*.py filter=evil diff=evil\n"})
    root = context.workspace.root
    proof = tmp_path / "ran"
    evil = f"touch {proof}; cat"
    for key in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.command", "diff.evil.textconv",
                "core.fsmonitor", "core.pager", "pager.log", "gpg.program", "diff.external", "core.sshCommand"):  # fmt: skip
        inside(context, "config", key, evil)
    inside(context, "config", "log.showSignature", "true")
    secret = tmp_path / "secret"
    await Git(None, tmp_path).run("init", "-q", str(secret))
    made = await Git(secret / ".git", secret).run("hash-object", "-w", "--stdin", input=b"hidden")
    (root / ".git/objects/info/alternates").write_text(f"{secret}/.git/objects\n")
    (root / ".git/packed-refs").write_text(f"{made.text()} refs/heads/main\n")
    os.mkfifo(root / ".git/objects/info/commit-graph")
    (root / "a.py").write_text("x = 2\ny = 2\n")
    for action in ("status", "diff", "log", "blame", "show"):
        try:
            result = await git(context, action, path="a.py" if action == "blame" else None)
        except ToolError as error:
            assert "no commit" in error.one_line()
        else:
            assert "hidden" not in result.text
    assert not proof.exists()


async def test_a_repository_without_a_commit_and_a_planted_head_are_one_clear_line(make_context: Any) -> None:
    context = await make_context(FILES)
    (context.workspace.root / ".git/HEAD").write_text("ref: refs/heads/none\n")
    assert "without a commit yet" in (await git(context, "status")).text
    with pytest.raises(ToolError, match="no commit yet"):
        await git(context, "log")
    (context.workspace.root / ".git/HEAD").unlink()
    (context.workspace.root / ".git/HEAD").symlink_to("/etc/passwd")
    with pytest.raises(ToolError, match=r"no \.git/HEAD"):
        await git(context, "status")


async def test_a_long_diff_is_bounded_and_kept_whole(make_context: Any) -> None:
    context = await make_context(FILES)
    (context.workspace.root / "b.txt").write_text("".join(f"line {n}\n" for n in range(9000)))
    result = await git(context, "diff")
    assert len(result.text) < 31_000 and f"artifact:{result.artifacts[0]}" in result.text
    assert context.fetch(result.artifacts[0]).endswith(b"+line 8999\n")

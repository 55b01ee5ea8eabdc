"""The bash tool in real sandboxes: states, bounds, handles, evidence."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.tools.background import Job
from whimbrel.app.tools.base import Progress, ToolContext, ToolResult
from whimbrel.app.tools.bash import BashArguments, BashTool
from whimbrel.app.tools.read import ReadArguments, ReadTool
from whimbrel.sandbox.base.errors import BudgetExceeded, SandboxDied, ToolError

ISOLATING = [
    pytest.param("bwrap", marks=pytest.mark.bwrap),
    pytest.param("docker", marks=pytest.mark.docker),
]


async def bash(context: ToolContext, command: str = "", **more: Any) -> ToolResult:
    return await BashTool().run(context, BashArguments(command=command, **more))


async def until_output(context: ToolContext, handle: str, wanted: str) -> ToolResult:
    """Polls until the output holds a text; the test's own time limit is the bound."""
    seen = ""
    while True:
        result = await bash(context, handle=handle)
        seen += result.text
        if wanted in seen:
            return result
        assert result.data["running"], seen
        await asyncio.sleep(0.05)


async def test_output_exit_code_and_evidence_of_a_command(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    result = await bash(context, "cat a.py; echo oops >&2; exit 3")
    assert result.text.startswith("Exit code 3 after ")
    assert "x = 1\noops" in result.text
    assert not result.is_error
    assert result.data["exit_code"] == 3
    assert (result.data["total_bytes"], result.data["total_lines"]) == (11, 2)
    (row,) = context.ledger.rows
    assert (row.purpose, row.exit_code, row.number) == ("tool", 3, result.data["ledger_row"])
    assert row.argv[1:] == ("-c", "cat a.py; echo oops >&2; exit 3")
    assert row.tree == context.workspace.base.tree
    assert row.fresh_process and row.sandbox_kind == "host"
    assert context.fetch(result.data["log_artifact"]) == b"x = 1\noops\n"


async def test_what_a_running_command_prints_is_told_line_by_line_and_cleaned(make_context: Any) -> None:
    context: ToolContext = await make_context({})
    told: list[Progress] = []
    context.progress = told.append
    await bash(context, "printf 'one\\n\\033[31mtwo\\033[0m\\n\\n'; sleep 0.2")
    assert [(each.phase, each.text) for each in told] == [("output", "two")]
    told.clear()
    result = await bash(context, "yes | head -c 3000000; echo end >&2; exit 3")
    assert result.data["exit_code"] == 3
    assert len(told) < 30


async def test_a_silent_command_says_so_and_keeps_nothing(make_context: Any) -> None:
    context = await make_context({})
    result = await bash(context, "true")
    assert result.text.splitlines()[1:] == ["(no output)"]
    assert (result.data["log_artifact"], result.artifacts) == (None, ())


async def test_the_evidence_names_the_tree_before_the_command(make_context: Any) -> None:
    context = await make_context({"a.txt": "1\n"})
    await bash(context, "echo 2 > a.txt")
    await bash(context, "true")
    first, second = context.ledger.rows
    assert first.tree == context.workspace.base.tree
    assert second.tree == await context.workspace.snapshot() != first.tree


async def test_bash_is_used_where_it_is_and_asked_for_once(make_context: Any) -> None:
    context = await make_context({})
    result = await bash(context, "[[ a == a ]] && echo ${BASH_VERSION:+yes}")
    assert result.text.endswith("yes\n")
    assert context.scratch["shell"].endswith("/bash")
    assert len(context.ledger.rows) == 1


async def test_a_sandbox_without_bash_gets_sh(make_context: Any, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "echo", "cat"):
        (programs / name).symlink_to(f"/bin/{name}")
    context = await make_context({}, env={"PATH": str(programs)})
    assert (await bash(context, "echo hello")).text.endswith("hello\n")
    assert context.scratch["shell"] == "/bin/sh"


async def test_the_time_limit_ends_the_command_and_is_said_first(make_context: Any) -> None:
    context = await make_context({})
    result = await bash(context, "echo before; sleep 600 & sleep 600", timeout_s=0.5)
    assert result.text.startswith("Ended at its time limit after ")
    assert "before" in result.text
    assert result.data["timed_out"] is True
    assert context.ledger.rows[0].timed_out


async def test_no_command_runs_past_the_end_of_the_run(make_context: Any) -> None:
    context = await make_context({}, deadline=time.monotonic() + 30)
    await bash(context, "true")
    context.deadline = time.monotonic() + 0.7
    assert (await bash(context, "sleep 600")).data["timed_out"]
    context.deadline = time.monotonic() - 1
    with pytest.raises(BudgetExceeded):
        await bash(context, "true")


async def test_a_flood_is_bounded_with_true_sizes_failing_lines_and_the_whole_log(make_context: Any) -> None:
    context = await make_context({})
    script = "seq 1 200000; echo 'ERROR: the one that matters'; seq 200001 400000; echo last"
    result = await bash(context, script)
    whole = context.fetch(result.data["log_artifact"])
    assert result.data["total_bytes"] == len(whole) > 2_000_000
    assert len(result.text) < 40_000
    assert f"of {len(whole)} bytes (400002 lines) not shown" in result.text
    assert "200001: ERROR: the one that matters" in result.text
    assert result.text.rstrip().endswith("last")
    handle = result.data["log_artifact"]
    assert f"artifact:{handle}" in result.text
    again = await ReadTool().run(
        context, ReadArguments(path=f"artifact:{handle}", start=200_001, end=200_001)
    )
    assert again.data["lines"] == ["ERROR: the one that matters"]


async def test_a_question_meets_an_empty_input_at_once(make_context: Any) -> None:
    context = await make_context({})
    result = await bash(context, "read answer || echo nobody there", timeout_s=60)
    assert "nobody there" in result.text and not result.data["timed_out"]


async def test_a_variable_that_was_not_passed_on_is_explained(
    make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOO_TOKEN", "s3cr3t-value")
    context = await make_context({})
    result = await bash(context, 'set -u; echo "$FOO_TOKEN"')
    assert "FOO_TOKEN is set outside but" in result.text
    assert "scrubbed environment" in result.text
    assert "s3cr3t-value" not in result.text


async def test_a_server_runs_in_the_background_and_does_not_hold_up_other_work(make_context: Any) -> None:
    context = await make_context({"page.txt": "hello from the server\n"})
    server = "python3 -u -m http.server --bind 127.0.0.1 0"
    started = await bash(context, server, background=True)
    handle = started.data["handle"]
    assert started.data == {"handle": "job1", "running": True}
    seen = started.text
    if "port" not in seen:
        seen = (await until_output(context, handle, "port")).text
    port = int(seen.split("port ")[1].split()[0])
    fetch = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/page.txt').read())"
    assert "hello from the server" in (await bash(context, f'python3 -c "{fetch}"')).text
    assert "GET /page.txt" in (await until_output(context, handle, "GET")).text
    ended = await bash(context, handle=handle, action="kill")
    assert ended.data["running"] is False and ended.data["killed"] is True
    assert "has ended: ended on request" in ended.text
    # Asking again repeats the end and adds no second evidence row.
    again = await bash(context, handle=handle)
    assert again.data["ledger_row"] == ended.data["ledger_row"] == 2
    assert [row.argv[2] for row in context.ledger.rows][1] == server


async def test_a_background_command_that_fails_at_once_says_so_at_once(make_context: Any) -> None:
    context = await make_context({})
    result = await bash(context, "echo cannot bind; exit 98", background=True)
    assert result.data["exit_code"] == 98 and result.data["running"] is False
    assert "cannot bind" in result.text


async def test_background_output_nobody_asked_for_is_bounded_and_counted(make_context: Any) -> None:
    context = await make_context({})
    await bash(context, "sleep 0.7; seq 1 100000; sleep 0.2", background=True)
    job: Job = context.scratch["bash_jobs"]["job1"]
    assert await job.result(60) is not None
    result = await bash(context, handle="job1")
    assert "earlier bytes not shown" in result.text
    assert result.text.count("\n") < 20_000
    assert result.data["total_bytes"] == len(context.fetch(result.data["log_artifact"])) == 588_895


async def test_bad_calls_are_refused_in_one_line(make_context: Any) -> None:
    context = await make_context({})
    for arguments, said in (
        ({"command": "  "}, "the command is empty"),
        ({"handle": "job9"}, "no background command 'job9' (there are: none)"),
        ({"handle": "job1", "command": "x"}, "not both"),
    ):
        with pytest.raises(ToolError) as caught:
            await bash(context, **arguments)
        assert said in caught.value.one_line()


async def test_commands_side_by_side_keep_their_outputs_and_rows_apart(make_context: Any) -> None:
    context = await make_context({})
    results = await asyncio.gather(*(bash(context, f"sleep 0.2; echo out{n}; exit {n}") for n in range(6)))
    assert [r.data["exit_code"] for r in results] == list(range(6))
    assert all(f"out{n}\n" in r.text for n, r in enumerate(results))
    rows = {row.number: row.exit_code for row in context.ledger.rows}
    assert [rows[r.data["ledger_row"]] for r in results] == list(range(6))


@pytest.mark.parametrize("kind", ISOLATING)
async def test_in_an_isolating_sandbox_the_copy_is_at_its_usual_place(make_context: Any, kind: str) -> None:
    context = await make_context({"a.txt": "1\n"}, kind=kind)
    result = await bash(context, "pwd; echo 2 >> a.txt; id -u")
    assert context.sandbox.spec.workdir in result.text
    assert (context.workspace.root / "a.txt").read_text() == "1\n2\n"
    assert result.text.split()[-1] != "0"
    assert context.ledger.rows[0].sandbox_kind == kind
    missing = await bash(context, 'set -u; echo "$FOO_TOKEN"')
    assert "FOO_TOKEN is not set and commands get a scrubbed environment" in missing.text


@pytest.mark.parametrize("kind", ISOLATING)
async def test_in_an_isolating_sandbox_background_commands_are_polled_and_killed(
    make_context: Any, kind: str
) -> None:
    context = await make_context({}, kind=kind)
    started = await bash(context, "echo ready; sleep 600", background=True)
    if "ready" not in started.text:
        await until_output(context, "job1", "ready")
    assert (await bash(context, "echo meanwhile")).text.endswith("meanwhile\n")
    ended = await bash(context, handle="job1", action="kill")
    assert ended.data["killed"] is True
    left = await bash(context, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
    assert "sleep 600" not in left.text


@pytest.mark.docker
async def test_a_container_that_goes_away_ends_the_run(
    make_context: Any,
) -> None:
    context = await make_context({}, kind="docker")
    await bash(context, "sleep 600", background=True)
    found = ["docker", "ps", "-q", "--filter", f"label=whimbrel.run={context.sandbox.spec.run_id}"]
    container = subprocess.run(found, capture_output=True, text=True, check=True).stdout.split()  # noqa: ASYNC221
    subprocess.run(["docker", "kill", *container], check=True, capture_output=True)  # noqa: ASYNC221
    with pytest.raises(SandboxDied):
        await bash(context, "echo still there?")


async def test_background_commands_are_listed_and_waited_for(make_context: Any) -> None:
    context = await make_context({"a.py": "x = 1\n"})
    assert "no background commands" in (await bash(context, "", action="list")).text
    started = await bash(context, "while [ ! -e go ]; do sleep 0.05; done; echo went", background=True)
    assert started.data == {"handle": "job1", "running": True}
    await bash(context, "sleep 500", background=True)
    listed = await bash(context, "", action="list")
    assert [(job["handle"], job["running"]) for job in listed.data["jobs"]] == [
        ("job1", True),
        ("job2", True),
    ]
    assert "job2: running for" in listed.text and "sleep 500" in listed.text
    waiting = asyncio.create_task(bash(context, "", handle="job1", wait_s=60))
    await bash(context, "touch go")
    ended = await waiting
    assert ended.data["exit_code"] == 0 and not ended.data["running"] and "went" in ended.text
    await bash(context, "", handle="job2", action="kill")
    listed = await bash(context, "", action="list")
    assert not any(job["running"] for job in listed.data["jobs"])

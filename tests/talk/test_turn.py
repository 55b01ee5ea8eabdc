"""One turn by the real command: what reaches standard output, the files, the result and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fix.conftest import WHIMBREL, Ran, Repo
from tests.mock_server import Request, completion

from .conftest import edits, options, server, wait_for

Talk = Callable[..., Ran]


def test_the_answer_alone_is_on_standard_output_and_a_change_is_a_patch_that_is_not_called_verified(
    calc: Repo, talk: Talk
):
    script = [
        edits("calc.py", "a - b", "a + b"),
        completion(calls=[("c2", "run_tests", {})]),
        completion(text="I changed add; its test passes."),
    ]
    before = calc.fingerprint()
    with server(script) as model:
        ran = talk(calc, "make add add", "--model", model.model())
        assert model.script_errors == []
    assert (ran.code, ran.out) == (0, "I changed add; its test passes.\n"), ran.err
    result = ran.result
    assert (result["status"], result["verified"], result["answer"]) == ("answered", False, ran.out.strip())
    assert [file["path"] for file in result["files"]] == ["calc.py"]
    assert calc.fingerprint() == before, "the person's files and repository stay as they are"
    subprocess.run(["git", "apply", "--check", str(ran.output / "patch.diff")], cwd=calc.root, check=True)
    (tested,) = result["tests"]
    assert tested["on_final_tree"] and tested["counts"] == {"passed": 1} and tested["exit_code"] == 0
    assert "make add add" in str(model.requests[0].messages[-1]["content"])
    assert "data that describes a problem" not in str(model.requests[0].messages), (
        "the prompt is an instruction"
    )


def test_a_change_after_the_last_tests_is_told_as_untested(calc: Repo, talk: Talk):
    script = [
        completion(calls=[("c1", "run_tests", {})]),
        edits("calc.py", "a - b", "a + b", call="c2"),
        completion(text="All tests pass."),
    ]
    with server(script) as model:
        ran = talk(calc, "make add add", "--model", model.model())
    assert ran.code == 0
    assert ran.result["message"] == "files were changed; no test ran on the final state"
    assert "not verified: files were changed; no test ran on the final state" in ran.err


def test_apply_puts_the_change_into_the_files_and_undo_takes_it_back(
    calc: Repo, talk: Talk, whimbrel: Callable[..., subprocess.CompletedProcess[str]]
):
    index = (calc.root / ".git/index").read_bytes()
    with server([edits("calc.py", "a - b", "a + b"), completion(text="Done.")]) as model:
        ran = talk(calc, "make add add", "--model", model.model(), "--apply")
    assert ran.code == 0 and ran.result["applied"] is True, ran.err
    assert "a + b" in (calc.root / "calc.py").read_text()
    assert (calc.root / ".git/index").read_bytes() == index
    assert whimbrel("undo", "--repo", str(calc.root)).returncode == 0
    assert "a - b" in (calc.root / "calc.py").read_text()


def test_json_lines_end_with_the_result(calc: Repo, talk: Talk):
    with server([completion(text="It subtracts.")]) as model:
        ran = talk(calc, "what does add do?", "--model", model.model(), "--json")
    events = ran.events
    assert events[-1]["event"] == "result" and events[-1]["data"]["answer"] == "It subtracts."
    assert events[-1]["data"] == ran.result
    assert not (ran.output / "patch.diff").exists(), "nothing was changed"


def test_an_open_standard_input_pipe_is_not_waited_for_and_a_dash_reads_it(
    calc: Repo, home: dict[str, str], tmp_path: Path
):
    reading, writing = os.pipe()
    try:
        with server(lambda _: completion(text="Yes.")) as model:
            command = [*WHIMBREL, *options(calc, tmp_path / "out"), "--model", model.model()]
            asked = {"env": home, "stdin": reading, "capture_output": True, "text": True, "timeout": 60}
            done = subprocess.run([*command, "is it so?"], **asked)
            assert (done.returncode, done.stdout) == (0, "Yes.\n"), done.stderr
            os.write(writing, b"from the pipe\n")
            os.close(writing)
            done = subprocess.run([*command, "-"], **asked)
            assert done.returncode == 0 and "from the pipe" in str(model.requests[-1].messages), done.stderr
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["  "], 2, "the prompt is empty"),
        (["x", "--resume", "nothing"], 2, "no session has an id"),
        (["x", "--continue"], 2, "no session of"),
        (["x", "--continue", "--resume", "y"], 2, "give one of"),
        (["x", "--fork", "y@z"], 2, "no message number"),
        (["x", "-c", "a=b=c"], 2, "there is no setting a"),
        (["x", "-c", "=x"], 2, "section.key=value"),
        (["x", "-c", "limits.steps=b=c"], 2, "limits.steps"),
        (["x", "--profile", "none"], 2, "no profile"),
        (["x", "--model", "nonsense"], 2, "valid forms"),
    ],
)
def test_wrong_usage_is_one_line_with_a_result(
    calc: Repo, talk: Talk, arguments: list[str], code: int, said: str
):
    ran = talk(calc, *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err and len(ran.err.strip().splitlines()) == 1, ran.err
    assert ran.result["exit_code"] == code


def test_a_prompt_is_limited_in_bytes(calc: Repo, talk: Talk):
    ran = talk(calc, "\N{GRINNING FACE}" * 300_000)  # fewer characters than the limit, more bytes
    assert ran.code == 2 and "bytes" in ran.err


def test_a_change_that_cannot_be_applied_is_told_and_kept(calc: Repo, talk: Talk):
    def script(request: Request):
        if len(request.messages) == 2:
            return edits("calc.py", "a - b", "a + b")
        (calc.root / "calc.py").write_text("def add(a, b):\n    return None\n")  # meanwhile, by the person
        return completion(text="Done.")

    with server(script) as model:
        ran = talk(calc, "make add add", "--model", model.model(), "--apply")
    assert (ran.code, ran.result["status"], ran.result["applied"]) == (4, "answered", False)
    assert "the patch was not applied" in ran.err and (ran.output / "patch.diff").is_file()
    assert "return None" in (calc.root / "calc.py").read_text()


def test_a_run_that_hits_a_limit_says_so_and_keeps_the_work_as_an_attempt(calc: Repo, talk: Talk):
    with server([edits("calc.py", "a - b", "a + b")]) as model:
        ran = talk(calc, "make add add", "--model", model.model(), "--max-steps", "1")
    assert (ran.code, ran.result["status"], ran.out) == (6, "budget", "")
    assert not (ran.output / "patch.diff").exists()
    assert "+    return a + b" in (ran.output / "attempts/final.diff").read_text()


def test_a_copy_of_the_session_goes_where_the_settings_say_and_never_costs_the_run(
    calc: Repo, talk: Talk, whimbrel: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
):
    (tmp_path / "copies").write_text("in the way")
    mirror = f"sessions.mirror=file://{tmp_path}/copies/a"
    with server([completion(text="It subtracts.")]) as model:
        ran = talk(calc, "what does add do?", "--model", model.model(), "-c", mirror)
    assert (ran.code, ran.out) == (0, "It subtracts.\n") and "retry: whimbrel session sync" in ran.err
    failed = whimbrel("session", "sync", "-c", mirror)
    assert failed.returncode == 10 and ran.result["session_id"] in failed.stdout
    (tmp_path / "copies").unlink()
    assert whimbrel("session", "sync", "-c", mirror).returncode == 0
    copy = tmp_path / f"copies/a/{ran.result['session_id']}.jsonl"
    taken = whimbrel("session", "import", str(copy))
    assert taken.returncode == 0 and "(under a new id)" in taken.stdout, taken.stderr


def test_sigterm_ends_the_command_tree_with_143_and_the_session_goes_on(
    calc: Repo, talk: Talk, tmp_path: Path, home: dict[str, str]
):
    mark = tmp_path / "running"
    script = f"sed -i s/-/+/ calc.py; echo $$ > {mark}; sleep 300 & sleep 300"
    with server(lambda _: completion(calls=[("c1", "bash", {"command": script, "timeout_s": 200})])) as model:
        command = [*WHIMBREL, *options(calc, tmp_path / "first"), "wait", "--model", model.model()]
        process = subprocess.Popen(
            command,
            env=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(lambda: mark.exists() and mark.read_text().strip() != "")
            group = int(mark.read_text())
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 143, err
    wait_for(lambda: not alive_in_group(group))
    result = json.loads((tmp_path / "first/result.json").read_text())
    assert (result["status"], [file["path"] for file in result["files"]]) == ("terminated", ["calc.py"])

    with server([completion(text="Here again.")]) as model:
        ran = talk(calc, "go on", "--continue", "--model", model.model())
        sent = model.requests[0].messages
    assert ran.out == "Here again.\n", ran.err
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "user"]
    assert [file["path"] for file in ran.result["files"]] == ["calc.py"], "the files go on as they were left"


def test_a_deleted_working_directory_is_one_line(calc: Repo, home: dict[str, str], tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m whimbrel.app.cli run x --sandbox host"
    done = subprocess.run(["/bin/sh", "-c", script], env=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def alive_in_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True

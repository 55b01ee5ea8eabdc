"""Many issues in one go: real runs of real repositories, interrupted and gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fix.conftest import TALLY, WHIMBREL, Repo, buggy, home, repo

__all__ = ["buggy", "home", "repo"]

Batch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def broken(tmp_path: Path) -> Repo:
    """A second repository, whose tests hang."""
    root = tmp_path / "slow"
    root.mkdir()
    made = Repo(root)
    made.git("init", "--quiet", "--initial-branch=main")
    return made.write(
        **{"test_slow.py": "import time, unittest\n\n\nclass T(unittest.TestCase):\n"
           "    def test_it(self):\n        time.sleep(600)\n"}
    ).commit()  # fmt: skip


@pytest.fixture
def batch(tmp_path: Path, home: dict[str, str]) -> Batch:
    def run(tasks: list[Any], *arguments: str, options: tuple[str, ...] = ()) -> Any:
        return subprocess.run(
            command(tmp_path, tasks, *arguments, options=options), env=home, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=200,
        )  # fmt: skip

    return run


def command(tmp_path: Path, tasks: list[Any], *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    file = tmp_path / "issues.jsonl"
    file.write_text("".join((task if isinstance(task, str) else json.dumps(task)) + "\n" for task in tasks))
    return [
        *WHIMBREL, "batch", str(file), "--output", str(tmp_path / "out"), *arguments,
        "--", "--sandbox", "host", "--python", sys.executable, *options,
    ]  # fmt: skip


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]


def test_each_issue_gets_its_line_and_its_folder_and_is_not_done_twice(
    buggy: Repo, batch: Batch, tmp_path: Path
):
    whole = Repo(tmp_path / "whole")
    subprocess.run(["git", "clone", "-q", str(buggy.root), str(whole.root)], check=True)
    whole.write(**{"tally.py": TALLY.replace("count < most", "count > most")}).commit()
    tasks = [
        {"id": "one/1", "repo": "project", "hints_text": "not for us"},
        {"instance_id": "two", "repo": str(whole.root)},
        {"id": "three", "repo": "nowhere"},
    ]
    first = batch(tasks, "-j", "2", "--json")
    assert first.returncode == 4, first.stdout + first.stderr
    done = {line["id"]: line for line in lines(tmp_path)}
    assert {name: line["status"] for name, line in done.items()} == {
        "one/1": "fixed", "two": "nothing_to_fix", "three": "repository",
    }  # fmt: skip
    assert [json.loads(line)["id"] for line in first.stdout.splitlines()] == [
        line["id"] for line in lines(tmp_path)
    ]
    patch = (tmp_path / "out" / done["one/1"]["patch"]).read_text()
    assert "+        if count > most:" in patch
    assert "hints_text" in first.stderr
    assert "1 of 3 fixed" in first.stderr

    # A crash cut the last line: its issue is done again, the others are not.
    results = tmp_path / "out" / "results.jsonl"
    whole_lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(whole_lines[:-1]) + whole_lines[-1][:20])
    cut = json.loads(whole_lines[-1])["id"]
    again = batch(tasks, "-j", "2", "--json")
    assert [json.loads(line)["id"] for line in again.stdout.splitlines()] == [cut]
    # Another text of the issue is another task; a status can be asked for again.
    tasks[1]["issue"] = "something else"
    changed = batch(tasks, "--again", "repository")
    assert "[2/2]" in changed.stdout and "two" in changed.stdout and "three" in changed.stdout


def wait_for(condition: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("it never happened")


def children_of(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_runs_ends_with_the_batch_and_stays_to_be_done(
    number: int, broken: Repo, home: dict[str, str], tmp_path: Path
):
    running = subprocess.Popen(
        command(tmp_path, [{"id": "slow", "repo": str(broken.root)}]), env=home,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    log = tmp_path / "out" / "runs" / "slow" / "log.txt"
    wait_for(lambda: log.exists() and b"Reproduce" in log.read_bytes())
    (child,) = children_of(running.pid)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == (143 if number == signal.SIGTERM else -9)
    if number == signal.SIGTERM:
        assert "0 of 1 done" in err and "goes on from there" in err
    wait_for(lambda: not Path(f"/proc/{child}").exists() or _is_zombie(child))
    assert not (tmp_path / "out" / "results.jsonl").exists()


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([], "no line"),
        (["{"], "line 1 is no JSON"),
        ([[1]], "line 1 is no JSON object"),
        ([{"id": "a", "repo": "x"}, {"id": "a", "repo": "y"}], "line 2 has the id 'a' of line 1 again"),
        ([{"id": "a"}], "line 1 has no repo"),
        ([{"id": "a", "repo": "x", "tests": [3]}], "line 1: tests"),
        ([{"id": "a", "repo": "x", "issue_file": "gone.md"}], "gone.md"),
    ],
)
def test_a_wrong_file_is_one_line_and_nothing_runs(tasks: list[Any], said: str, batch: Batch, tmp_path: Path):
    ran = batch(tasks)
    assert ran.returncode == 2
    assert said in ran.stderr and "Traceback" not in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [("--no-such",), ("--issue", "x"), ("--effort", "wild"), ("--apply",)])
def test_wrong_options_for_the_runs_are_a_usage_error_before_anything_runs(
    option: tuple[str, ...], batch: Batch, tmp_path: Path
):
    ran = batch([{"id": "a", "repo": "x"}], options=option)
    assert ran.returncode == 2
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------- Ray


@pytest.fixture
def cluster(home: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A cluster of two nodes on this machine: two raylets, one processor each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    for name, value in home.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    small = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=small)
    try:
        made.add_node(num_cpus=1, object_store_memory=80 << 20)
        yield made
    finally:
        made.shutdown()


def test_on_a_ray_cluster_of_two_nodes_both_work_and_the_results_come_back(
    cluster: Any, buggy: Repo, batch: Batch, tmp_path: Path
):
    tasks = [{"id": f"issue-{number}", "repo": str(buggy.root)} for number in range(3)]
    ran = batch(tasks, "--ray", cluster.address)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    done = lines(tmp_path)
    assert sorted(line["id"] for line in done) == ["issue-0", "issue-1", "issue-2"]
    assert len({line["node"] for line in done}) == 2
    for line in done:
        assert line["status"] == "fixed"
        assert "count > most" in (tmp_path / "out" / line["patch"]).read_text()


def test_without_a_cluster_there_is_one_line(batch: Batch):
    ran = batch([{"id": "a", "repo": "x"}], "--ray", "127.0.0.1:9")
    assert ran.returncode == 10
    assert "no Ray cluster answers at 127.0.0.1:9" in ran.stderr and "Traceback" not in ran.stderr


def test_a_status_that_no_result_has_is_a_usage_error(batch: Batch):
    ran = batch([{"id": "a", "repo": "x"}], "--again", "nosuch")
    assert ran.returncode == 2 and "'nosuch' is no status" in ran.stderr

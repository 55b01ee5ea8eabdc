"""The environment traps, end to end: whole repairs in unusual surroundings."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from .conftest import TALLY, WHIMBREL, Ran, Repo

Fix = Callable[..., Ran]
ROOT = Path(__file__).resolve().parents[2]

DOCKER = pytest.param("docker", marks=pytest.mark.docker)
BWRAP = pytest.param("bwrap", marks=pytest.mark.bwrap)

PYTEST_STYLE = """\
from tally import most_common


def test_the_most_frequent_word_wins():
    assert most_common(["a", "b", "b"]) == "b"
    assert most_common(["c", "c", "b"]) == "c"


def test_nothing_is_most_common_in_nothing():
    assert most_common([]) is None
"""


def _with_venv(repo: Repo, python: str) -> Repo:
    """The repository with pytest tests and a git-ignored ``.venv`` that links to an existing environment."""
    repo.write(**{"tally.py": TALLY, "tests__test_tally.py": PYTEST_STYLE, ".gitignore": ".venv/\n"}).commit()
    (repo.root / ".venv").symlink_to(Path(python).parent.parent)
    return repo


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", [DOCKER, BWRAP])
@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_projects_on_older_and_newer_pythons(
    repo: Repo, fix: Fix, interpreter: Callable[..., str], version: str, sandbox: str
):
    python = interpreter(version)
    repo.write(**{"tally.py": TALLY, "tests__test_tally.py": PYTEST_STYLE}).commit()
    ran = fix(repo, "--python", python, sandbox=sandbox)
    assert ran.code == 0, ran.out + ran.err
    assert ran.result["environment"]["version"].startswith(version + ".")
    assert ran.result["sandbox"]["kind"] == sandbox
    assert ran.result["sandbox"]["isolated"] is True


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", [DOCKER, BWRAP, "host"])
def test_an_editable_install_does_not_test_the_original(
    repo: Repo, fix: Fix, interpreter: Callable[..., str], tmp_path: Path, sandbox: str
):
    base = interpreter("3.11", "pytest", "setuptools", "wheel")
    package = repo.root / "src" / "tallying"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TALLY)
    (repo.root / "tests").mkdir()
    (repo.root / "tests" / "test_tally.py").write_text(PYTEST_STYLE.replace("from tally", "from tallying"))
    (repo.root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "tally"\nversion = "1"\n'
        '[tool.setuptools]\npackages = ["tallying"]\npackage-dir = {"" = "src"}\n'
    )
    (repo.root / ".gitignore").write_text(".venv/\n*.egg-info/\n")
    venv = repo.root / ".venv"
    subprocess.run([base, "-m", "venv", str(venv), "--system-site-packages"], check=True)
    install = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "pytest", "setuptools", "wheel"]
    subprocess.run(install, check=True, capture_output=True)
    editable = [*install[:5], "--no-build-isolation", "--editable", str(repo.root)]
    subprocess.run(editable, check=True, capture_output=True)
    repo.commit()
    original = (package / "__init__.py").read_bytes()
    ran = fix(repo, sandbox=sandbox)
    assert ran.code == 0, ran.out + ran.err
    assert [entry["path"] for entry in ran.result["files"]] == ["src/tallying/__init__.py"]
    assert ran.result["environment"]["origin"] == ".venv"
    assert (package / "__init__.py").read_bytes() == original


@pytest.mark.bwrap
def test_a_repository_with_a_linked_environment(repo: Repo, fix: Fix, interpreter: Callable[..., str]):
    _with_venv(repo, interpreter("3.11"))
    ran = fix(repo, sandbox="bwrap")
    assert ran.code == 0, ran.out + ran.err


@pytest.mark.bwrap
def test_a_broken_environment_names_what_is_missing_and_tries_no_repair(
    repo: Repo, fix: Fix, interpreter: Callable[..., str]
):
    test = "import surely_missing_plugin\nfrom tally import tally\n\n\ndef test_it():\n    assert tally([]) == {}\n"
    repo.write(**{"tally.py": TALLY, "test_tally.py": test}).commit()
    ran = fix(repo, "--python", interpreter("3.11"), "--no-build", sandbox="bwrap")
    assert (ran.code, ran.result["status"]) == (11, "environment_broken"), ran.out + ran.err
    assert "surely_missing_plugin" in ran.result["message"]
    assert ran.result["search"] == {}


@pytest.mark.slow
@pytest.mark.docker
def test_outer_runs_inside_a_throw_away_container_without_docker(buggy: Repo, tmp_path: Path):
    mounts = {str(Path(sys.base_prefix).resolve()), str(Path(sys.prefix).resolve()), str(ROOT)}
    state = tmp_path / "state"
    state.mkdir()
    places = [f"--volume={place}:{place}:ro" for place in sorted(mounts)]
    done = subprocess.run(
        [
            "docker", "run", "--rm", "--network=none", *places, f"--volume={buggy.root}:{buggy.root}:ro",
            f"--volume={state}:{state}", "--env", f"WHIMBREL_STATE_DIR={state}", "--env", "WHIMBREL_RUN_DIR=/tmp/runs",
            _base_image(), sys.executable, "-m", "whimbrel.app.cli", "fix-issue", "--repo", str(buggy.root),
            "--sandbox", "outer", "--python", sys.executable, "--output", f"{state}/out",
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((state / "out" / "result.json").read_text())
    assert (result["status"], result["sandbox"]["kind"], result["sandbox"]["isolated"]) == (
        "fixed",
        "outer",
        False,
    )
    assert any("/.dockerenv exists" in reason for reason in result["sandbox"]["reasons"])


def _base_image() -> str:
    listed = subprocess.run(
        ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", "whimbrel/base"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = listed.stdout.split()
    assert names, "the Debian base image is needed: whimbrel sandbox build --from-debian"
    return names[0]


def test_an_issue_from_github_is_read_as_data(buggy: Repo, fix: Fix):
    seen: list[str] = []

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            issue = {"title": "Wrong word", "body": "b should win", "comments": 1}
            body = json.dumps([{"body": "me too"}] if self.path.endswith("per_page=50") else issue).encode()
            self.send_response(200 if "/issues/7" in self.path else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        api = f"http://127.0.0.1:{server.server_port}"
        ran = fix(buggy, "--issue", "https://github.com/some/project/issues/7", GITHUB_API_URL=api)
        missing = fix(buggy, "--issue", "https://github.com/some/project/issues/8", GITHUB_API_URL=api)
    finally:
        server.shutdown()
        server.server_close()
    assert ran.code == 0, ran.out + ran.err
    assert seen[:2] == ["/repos/some/project/issues/7", "/repos/some/project/issues/7/comments?per_page=50"]
    assert (missing.code, missing.result["status"]) == (2, "usage")
    assert "HTTP 404" in missing.result["message"]


def test_two_runs_at_once_do_not_collide(buggy: Repo, tmp_path: Path, home: dict[str, str]):
    runs = [
        subprocess.Popen(
            [*WHIMBREL, "fix-issue", "--repo", str(buggy.root), "--sandbox", "host", "--output", str(tmp_path / f"out{n}")],
            env=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for n in range(2)
    ]  # fmt: skip
    said = [run.communicate(timeout=200)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], "\n".join(said)
    patches = {(tmp_path / f"out{n}" / "patch.diff").read_text() for n in range(2)}
    assert len(patches) == 1


def test_starting_from_a_commit_or_a_branch_ignores_the_working_tree(buggy: Repo, fix: Fix):
    head = buggy.git("rev-parse", "HEAD").strip()
    buggy.git("checkout", "--quiet", "-b", "other")
    buggy.write(**{"tally.py": "this is not python\n"}).commit()
    buggy.write(**{"tally.py": "neither is this\n"})
    for arguments in (["--commit", head], ["--branch", "main"]):
        ran = fix(buggy, *arguments)
        assert ran.code == 0, ran.out + ran.err
        assert ran.result["base_commit"] == head
    assert (buggy.root / "tally.py").read_text() == "neither is this\n"


def test_the_command_can_be_given_as_tests(buggy: Repo, fix: Fix):
    ran = fix(buggy, "--tests", f"{sys.executable} -m unittest test_tally")
    assert ran.code == 0, ran.out + ran.err
    ran = fix(buggy, "--tests", "test_tally.TallyTest.test_the_most_frequent_word_wins")
    assert ran.code == 0, ran.out + ran.err

"""`whimbrel doctor`, run for real: what it says of this machine and of poorer ones."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from whimbrel.app.doctor import Finding, State, render
from whimbrel.app.doctor.advice import install_line
from whimbrel.app.doctor.diagnosis import conclude, diagnose
from whimbrel.app.doctor.machine import EXTRA_COSTS
from whimbrel.app.doctor.probing import first_line, guarded

NO_DOCKER = "unix:///nonexistent/docker.sock"


def doctor(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "whimbrel.app.cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        timeout=120,
        check=False,
    )


def folder_with(tmp_path: Path, *programs: str) -> str:
    """A PATH on which only ``programs`` are found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found is not None
        (folder / program).symlink_to(found)
    return str(folder)


def test_the_json_names_every_finding_with_its_cost_and_the_exit_code_agrees() -> None:
    done = doctor("--json")
    said = json.loads(done.stdout)
    assert done.returncode == said["exit_code"]
    names = {finding["name"] for finding in said["findings"]}
    assert {"git", "ripgrep", "Docker", "bubblewrap", "Podman", "debootstrap", "cc", "go", "GPU"} <= names
    assert {"state folder", "cache folder", "terminal", "core packages"} <= names
    for finding in said["findings"]:
        assert finding["state"] in ("ok", "limited", "missing", "unknown")
        assert finding["detail"]
        if finding["state"] == "missing":
            assert finding["cost"], finding


@pytest.mark.bwrap
def test_a_machine_with_git_and_bubblewrap_is_ready_and_bubblewrap_was_really_started(tmp_path: Path) -> None:
    done = doctor("--json", env={"DOCKER_HOST": NO_DOCKER})
    said = json.loads(done.stdout)
    assert (done.returncode, said["sandbox"]) == (0, "bwrap")
    assert "isolated by bubblewrap" in said["verdict"]
    states = {finding["name"]: (finding["state"], finding["detail"]) for finding in said["findings"]}
    assert states["Docker"][0] == "missing"
    assert states["bubblewrap"][0] == "ok"


@pytest.mark.docker
def test_a_docker_daemon_with_the_image_is_named_with_its_version() -> None:
    said = json.loads(doctor("--json").stdout)
    found = {finding["name"]: finding for finding in said["findings"]}
    version = subprocess.run(
        ["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert version in found["Docker"]["detail"]
    assert found["Docker image"]["state"] == "ok"
    assert said["sandbox"] == "docker"


def test_without_an_isolating_sandbox_the_exit_code_is_9_with_one_line_on_how_to_get_one(
    tmp_path: Path,
) -> None:
    path = folder_with(tmp_path, "git")
    done = doctor(env={"PATH": path, "DOCKER_HOST": NO_DOCKER})
    assert done.returncode == 9
    text = " ".join(done.stdout.split())
    assert "No isolating sandbox works here" in text and "--sandbox host" in text
    assert "ripgrep missing" in text and "slower on large repositories" in text


def test_without_git_the_main_job_cannot_run(tmp_path: Path) -> None:
    done = doctor(env={"PATH": folder_with(tmp_path), "DOCKER_HOST": NO_DOCKER})
    assert done.returncode == 10
    assert "cannot run without git" in done.stdout


def test_plain_text_has_aligned_states_and_no_colours() -> None:
    done = doctor()
    assert "\x1b" not in done.stdout
    states = [line for line in done.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    assert len(states) > 10
    assert {line[20:27].strip() for line in states} <= {"ok", "limited", "missing", "unknown"}


@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_appear_on_a_terminal_only_and_can_be_switched_off(
    variables: dict[str, str], coloured: bool
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "DOCKER_HOST": NO_DOCKER, **variables}
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "whimbrel.app.cli", "doctor"],
        stdout=follower,
        stderr=follower,
        env=environment,
    )
    os.close(follower)
    output = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(leader)
    process.wait()
    assert b"bubblewrap" in output
    assert (b"\x1b[32m" in output) is coloured


def test_nothing_heavy_is_imported_where_no_docker_socket_is() -> None:
    code = (
        "import sys, asyncio\n"
        "from whimbrel.app.doctor import diagnose\n"
        "asyncio.run(diagnose())\n"
        "heavy = {'docker','pydantic','textual','rich','git','openai','httpx','tree_sitter','torch'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    environment = {**os.environ, "DOCKER_HOST": NO_DOCKER}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_probe_that_breaks_or_hangs_becomes_a_finding_and_the_others_still_answer() -> None:
    async def breaks() -> list[Finding]:
        raise ValueError("odd\nmachine")

    async def hangs() -> list[Finding]:
        await asyncio.sleep(60)
        return []

    async def fine() -> list[Finding]:
        return [Finding("needed", "git", State.OK, "2.0")]

    async def hurried() -> list[Finding]:
        return await guarded("sandbox", "Podman", hangs, limit_s=0.05)

    found = asyncio.run(
        diagnose([("needed", "git", fine), ("sandbox", "Docker", breaks), ("sandbox", "Podman", hurried)])
    )
    assert [(f.name, f.state, f.detail) for f in found.findings] == [
        ("git", State.OK, "2.0"),
        ("Docker", State.UNKNOWN, "the probe failed: ValueError: odd machine"),
        ("Podman", State.UNKNOWN, "no answer within 0.05 s"),
    ]
    assert found.exit_code == 9


def test_a_program_that_hangs_counts_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "git"
    script.write_text("#!/bin/sh\nsleep 600\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("whimbrel.app.doctor.probing.PROGRAM_LIMIT_S", 0.3)
    assert asyncio.run(first_line(["git", "--version"])) is None


@pytest.fixture
def silent_daemon(tmp_path: Path) -> Iterator[str]:
    """A socket that takes connections and closes them without a word, as a broken daemon does."""
    path = str(tmp_path / "docker.sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    yield f"unix://{path}"
    server.close()


def test_a_daemon_that_answers_nonsense_is_one_line_and_not_a_crash(silent_daemon: str) -> None:
    done = doctor("--json", env={"DOCKER_HOST": silent_daemon})
    (docker,) = [f for f in json.loads(done.stdout)["findings"] if f["name"] == "Docker"]
    assert docker["state"] in ("missing", "unknown")
    assert "Traceback" not in done.stderr and "\n" not in docker["detail"]


@pytest.mark.slow
def test_a_daemon_that_never_answers_is_given_up_on(tmp_path: Path) -> None:
    path = str(tmp_path / "docker.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        done = doctor("--json", env={"DOCKER_HOST": f"unix://{path}"})
    (docker,) = [f for f in json.loads(done.stdout)["findings"] if f["name"] == "Docker"]
    assert docker["state"] == "missing"
    assert "did not answer in time" in docker["detail"]


def test_a_daemon_without_image_counts_only_where_the_image_can_be_built() -> None:
    git = Finding("needed", "git", State.OK, "2")
    daemon = Finding("sandbox", "Docker", State.OK, "answers")
    image = Finding("sandbox", "Docker image", State.MISSING, "none", "must be built")
    builder = Finding("sandbox", "debootstrap", State.OK, "there")
    assert conclude([git, daemon, image]).exit_code == 9
    ready = conclude([git, daemon, image, builder])
    assert (ready.exit_code, ready.sandbox) == (0, "docker")
    assert "whimbrel sandbox build" in ready.verdict


def test_every_extra_says_what_is_missing_without_it_and_nothing_else_does() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert set(EXTRA_COSTS) == set(project["optional-dependencies"])


def test_a_missing_thing_is_shown_with_its_cost_and_install_line() -> None:
    found = conclude(
        [Finding("needed", "git", State.MISSING, "not installed", "no repository", "apt install git")]
    )
    assert render(found).splitlines()[:4] == [
        "Needed",
        "  git               missing  not installed",
        "                             without it: no repository",
        "                             to get it: apt install git",
    ]


@pytest.mark.parametrize("manager", ["apt", "dnf", "apk", "pacman", "brew", None])
def test_install_lines_name_a_command_or_plain_words(manager: str | None) -> None:
    for tool in ("git", "ripgrep", "cc", "java", "docker", "podman", "node"):
        line = install_line(tool, manager)
        assert line and "http" not in line
    assert install_line("bubblewrap", "brew") == ""
    assert install_line("ripgrep", "apt") == "apt-get install ripgrep"
    assert install_line("c++", "dnf") == "dnf install gcc-c++"


def test_the_kernels_in_use_are_named_and_what_their_absence_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    from whimbrel.app.doctor.kernels import kernels
    from whimbrel.kernels.native import library

    (finding,) = asyncio.run(kernels())
    assert library.status().variant == "numpy" or library.status().variant in finding.detail
    try:
        for wanted, state, detail in (
            ("numpy", State.LIMITED, "WHIMBREL_KERNELS=numpy"),
            ("sse", State.MISSING, "sse"),
        ):
            monkeypatch.setenv("WHIMBREL_KERNELS", wanted)
            library.forget()
            (finding,) = asyncio.run(kernels())
            assert finding.state is state and detail in finding.detail
            assert finding.cost and finding.install == "unset WHIMBREL_KERNELS"
    finally:
        monkeypatch.undo()
        library.forget()

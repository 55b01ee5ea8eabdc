"""Choosing a sandbox: explicit kinds never fall back, and auto never ends up without isolation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import SandboxUnavailable, UsageError
from whimbrel.sandbox.bwrap import BwrapSandbox
from whimbrel.sandbox.docker import DockerSandbox
from whimbrel.sandbox.host import HostSandbox
from whimbrel.sandbox.protocol import Sandbox, SandboxSpec
from whimbrel.sandbox.select import Choice, choose_kind, make_sandbox, outer_evidence, workspace_owner

from .test_host import copy_of_a_repository


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody-listens.sock")


@pytest.fixture
def no_bwrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


async def choose(kind: str, image: str | None = None) -> Choice:
    return await choose_kind(kind, image=image, allow_build=False, report=lambda line: None)


async def test_an_unknown_kind_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown sandbox 'chroot'"):
        await choose("chroot")


@pytest.mark.bwrap
async def test_auto_takes_bubblewrap_where_no_docker_daemon_answers(no_docker: None) -> None:
    choice = await choose("auto")
    assert choice.kind == "bwrap"
    assert choice.reasons[0].startswith("docker: ")
    assert "bubblewrap" in choice.reasons[1]


async def test_auto_stops_with_one_line_where_neither_can_start(no_docker: None, no_bwrap: None) -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        await choose("auto")
    assert caught.value.exit_code == 9
    line = caught.value.one_line()
    assert "\n" not in line
    for part in ("docker:", "bwrap:", "start a Docker daemon", "install bubblewrap", "--sandbox host"):
        assert part in line


async def test_docker_asked_for_by_name_is_not_replaced_by_bubblewrap(no_docker: None) -> None:
    with pytest.raises(SandboxUnavailable):
        await choose("docker")


async def test_bubblewrap_asked_for_by_name_is_not_replaced_by_docker(no_bwrap: None) -> None:
    with pytest.raises(SandboxUnavailable, match="bubblewrap"):
        await choose("bwrap")


async def test_auto_with_an_image_means_docker_only(no_docker: None) -> None:
    with pytest.raises(SandboxUnavailable):
        await choose("auto", image="python:3.12")


@pytest.mark.docker
async def test_docker_is_chosen_with_the_image_and_its_digest() -> None:
    choice = await choose("docker")
    assert choice.kind == "docker"
    assert choice.image
    assert choice.image_digest
    assert choice.image_digest.startswith("sha256:")
    assert await choose("auto") == choice


async def test_host_and_outer_are_chosen_only_by_name() -> None:
    host, outer = await choose("host"), await choose("outer")
    assert host.kind == "host"
    assert "not isolated" in host.reasons[0]
    assert outer.kind == "outer"
    assert len(outer.reasons) >= 2


@pytest.mark.parametrize(
    ("marker", "content", "said"),
    [
        (".dockerenv", "", "/.dockerenv exists"),
        ("run/.containerenv", "", "/run/.containerenv exists"),
        ("proc/1/cgroup", "12:pids:/docker/0123abcd\n", "/docker/0123abcd"),
        ("proc/1/cgroup", "0::/kubepods/besteffort/pod1\n", "/kubepods"),
    ],
)
def test_signs_of_a_surrounding_container_are_recorded(
    tmp_path: Path, marker: str, content: str, said: str
) -> None:
    path = tmp_path / marker
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    assert any(said in line for line in outer_evidence(tmp_path))


def test_the_absence_of_any_sign_is_recorded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("container", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert any("no sign" in line for line in outer_evidence(tmp_path))
    monkeypatch.setenv("container", "podman")
    assert any("container='podman'" in line for line in outer_evidence(tmp_path))


def test_the_copy_belongs_to_the_sandbox_user_only_when_root_starts_an_isolating_sandbox() -> None:
    isolating = {workspace_owner("docker"), workspace_owner("bwrap")}
    assert isolating == ({(61832, 61832)} if os.geteuid() == 0 else {None})
    assert workspace_owner("host") is None
    assert workspace_owner("outer") is None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("docker", DockerSandbox), ("bwrap", BwrapSandbox), ("host", HostSandbox), ("outer", HostSandbox)],
)
async def test_each_kind_is_made_of_its_own_implementation(
    tmp_path: Path, kind: str, expected: type[Sandbox]
) -> None:
    workspace = await copy_of_a_repository(tmp_path)
    spec = SandboxSpec(workspace.root, str(workspace.root), tmp_path / "state", "select-test")
    sandbox = make_sandbox(Choice(kind), spec, workspace)
    assert isinstance(sandbox, expected)
    assert sandbox.describe().kind == kind

"""Project layers, stacks, listing and pruning, against a real daemon."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from whimbrel.app.commands.sandbox import group
from whimbrel.sandbox.base.errors import SandboxUnavailable, UsageError
from whimbrel.sandbox.daemon import Daemon, connect
from whimbrel.sandbox.images import (
    STACKS,
    build_layer,
    build_stack,
    find_image,
    list_images,
    prune,
    usable_image,
)
from whimbrel.sandbox.images.stacks import DEBIAN_PACKAGES, build_dockerfile, dockerfile
from whimbrel.sandbox.protocol import Mount

pytestmark = pytest.mark.docker


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    found = await connect()
    yield found
    found.close()


@pytest.fixture
async def base() -> str:
    return (await usable_image(None, allow_build=True)).reference


@pytest.fixture
def tag() -> Iterator[str]:
    name = f"whimbrel-test:{secrets.token_hex(4)}"
    yield name
    subprocess.run(["docker", "rmi", "-f", name], capture_output=True, check=False)


def docker(*arguments: str) -> None:
    """The docker command line, as a person would use it."""
    subprocess.run(["docker", *arguments], capture_output=True, check=True)


def inside(image: str, script: str) -> str:
    """What a script prints in a container of that image."""
    command = ["docker", "run", "--rm", "--network", "none", image, "/bin/sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def containers(tag: str) -> str:
    """Ids of build containers of that image that are still there."""
    command = ["docker", "ps", "-aq", "--filter", f"label=whimbrel.run={tag}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def test_a_layer_holds_what_its_commands_made_and_nothing_of_how(
    base: str, tag: str, tmp_path: Path
) -> None:
    context, wheels = tmp_path / "context", tmp_path / "wheels"
    context.mkdir()
    wheels.mkdir()
    (context / "requirements.txt").write_text("thing==1\n")
    (wheels / "thing").write_text("wheel")
    image = await build_layer(
        base,
        ["cp requirements.txt /opt/", "cp /srv/wheels/thing /opt/", 'echo "$FLAVOUR" > /opt/flavour'],
        tag=tag,
        context_dir=context,
        mounts=[Mount(wheels, "/srv/wheels")],
        env={"FLAVOUR": "it's sweet"},
        network=False,
    )
    assert image.kind == "layer"
    assert inside(tag, "cat /opt/requirements.txt /opt/thing /opt/flavour; ls /mnt; echo [$FLAVOUR]") == (
        "thing==1\nwheelit's sweet\n[]\n"
    )
    assert "FLAVOUR" not in image.env
    assert image.labels["whimbrel.pid"] == ""
    assert containers(tag) == ""


async def test_an_equal_layer_is_found_and_a_changed_file_makes_a_new_one(
    base: str, tag: str, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    lock.write_text("one")
    first = await build_layer(base, ["cp lock /opt/lock"], tag=tag, context_dir=tmp_path, network=False)
    again = await build_layer(base, ["cp lock /opt/lock"], tag=tag, context_dir=tmp_path, network=False)
    assert again.digest == first.digest
    lock.write_text("two")
    other = await build_layer(base, ["cp lock /opt/lock"], tag=tag, context_dir=tmp_path, network=False)
    assert other.digest != first.digest
    assert inside(tag, "cat /opt/lock") == "two"


async def test_a_failing_command_ends_the_build_with_its_last_lines(base: str, tag: str) -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        await build_layer(
            base, ["echo no such package >&2; false", "touch /opt/never"], tag=tag, network=False
        )
    assert "exit code 1" in caught.value.message
    assert "no such package" in caught.value.message
    with pytest.raises(SandboxUnavailable):
        await usable_image(tag)
    assert containers(tag) == ""


async def test_a_layer_that_takes_too_long_is_given_up(base: str, tag: str) -> None:
    with pytest.raises(SandboxUnavailable, match="124"):
        await build_layer(base, ["sleep 300"], tag=tag, network=False, timeout_s=1)
    assert containers(tag) == ""


async def test_a_cancelled_build_leaves_no_container(base: str, tag: str) -> None:
    reported: list[str] = []
    building = asyncio.create_task(
        build_layer(base, ["echo underway; sleep 300"], tag=tag, network=False, report=reported.append)
    )
    async with asyncio.timeout(30):
        while "underway" not in reported:  # noqa: ASYNC110 - the report is a plain callback
            await asyncio.sleep(0.05)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert containers(tag) == ""


async def test_the_network_is_shut_when_a_layer_needs_none(base: str, tag: str) -> None:
    await build_layer(base, ["ls /sys/class/net > /opt/devices"], tag=tag, network=False)
    assert inside(tag, "cat /opt/devices").split() == ["lo"]


async def test_an_unknown_base_is_named(tag: str) -> None:
    with pytest.raises(SandboxUnavailable, match="nobody/base:1 is not on this machine"):
        await build_layer("nobody/base:1", ["true"], tag=tag)


async def test_pruning_takes_our_layers_and_leaves_what_others_built_on_them(
    daemon: Daemon, base: str, tag: str, tmp_path: Path
) -> None:
    layer = await build_layer(base, [f"echo {tag} > /opt/unique"], tag=tag, network=False)
    theirs = f"{tag}-theirs"
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nLABEL somebody=else\n")
    docker("build", "-q", "-t", theirs, str(tmp_path))
    try:
        known = {image.reference for image in await list_images(daemon)}
        assert tag in known and base in known
        assert theirs not in known
        _, removed = await prune(daemon, layers_only=True, named=tag)
        assert tag in removed
        assert await find_image(daemon, layer.digest) is None
        assert await find_image(daemon, base) is not None
        assert await find_image(daemon, theirs) is not None
    finally:
        docker("rmi", "-f", theirs)


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_has_a_dockerfile_on_a_replaceable_base(stack: str) -> None:
    text = dockerfile(stack)
    assert "ARG BASE=" in text and "FROM ${BASE}" in text and "${PACKAGES}" in text
    assert DEBIAN_PACKAGES[stack]


def test_an_unknown_stack_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        dockerfile("cobol")
    assert "python" in caught.value.hint


async def test_a_dockerfile_is_built_on_a_local_base_without_a_registry(
    daemon: Daemon, base: str, tag: str
) -> None:
    text = "ARG BASE\nFROM ${BASE}\nARG WORD\nRUN echo ${WORD} > /opt/word\n"
    marks = {"whimbrel.kind": "stack", "whimbrel.reference": tag}
    image = await build_dockerfile(daemon, text, tag, marks, arguments={"BASE": base, "WORD": "built"})
    assert image.kind == "stack"
    assert inside(tag, "cat /opt/word") == "built\n"


async def test_a_failing_dockerfile_shows_the_failing_step(daemon: Daemon, base: str, tag: str) -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        await build_dockerfile(daemon, f"FROM {base}\nRUN echo the reason && exit 9\n", tag, {})
    assert "the reason" in caught.value.message
    assert "9" in caught.value.message


@pytest.mark.slow
async def test_the_cpp_stack_can_be_made_from_debian_packages(daemon: Daemon, base: str, tag: str) -> None:
    start = await find_image(daemon, base)
    await build_stack(daemon, "cpp", base=start, tag=tag)
    script = "echo 'int main() { return 3; }' > /tmp/a.cc && g++ -o /tmp/a /tmp/a.cc && (/tmp/a; echo $?)"
    assert inside(tag, script) == "3\n"


def test_the_command_lists_what_was_built(base: str) -> None:
    result = CliRunner().invoke(group, ["list"])
    assert result.exit_code == 0
    assert base in result.output


def test_the_build_command_finds_the_image_that_is_there(base: str) -> None:
    result = CliRunner().invoke(group, ["build"])
    assert result.exit_code == 0
    assert result.output.startswith(base)


@pytest.mark.parametrize(
    "arguments", [["--suite", "trixie"], ["--from", "x"], ["--from", "x", "--from-debian", "--stack", "go"]]
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(group, ["build", *arguments])
    assert isinstance(result.exception, UsageError)

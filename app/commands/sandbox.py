"""`whimbrel sandbox build|list|prune`: the container images runs start from."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ...sandbox.images import ImageInfo


T = TypeVar("T")
_STACKS = ("python", "node", "go", "rust", "java", "cpp")


@click.group()
def group() -> None:
    """Build, list and prune sandbox images."""


@group.command()
@click.option(
    "--from-debian", is_flag=True, help="Start from Debian packages (debootstrap); needs no registry."
)
@click.option("--suite", help="Debian code name for --from-debian. [default: this machine's]")
@click.option("--mirror", help="Package mirror for --from-debian. [default: this machine's]")
@click.option("--stack", type=click.Choice(_STACKS), help="Add a language's tools.")
@click.option("--from", "source", metavar="IMAGE", help="Local image to build the stack on.")
@click.option("--tag", help="Full name of the image. [default: whimbrel/base:SUITE or whimbrel/STACK:latest]")
@click.option(
    "--network", "network_mode", type=click.Choice(["bridge", "host"]), help="Network of the build steps."
)
def build(
    from_debian: bool,
    suite: str | None,
    mirror: str | None,
    stack: str | None,
    source: str | None,
    tag: str | None,
    network_mode: str | None,
) -> None:
    """Build an image once; later calls find it at once."""
    from ...sandbox.base.errors import UsageError

    if source and from_debian:
        raise UsageError("--from and --from-debian exclude each other")
    if source and not stack:
        raise UsageError("--from needs --stack")
    if (suite or mirror) and not from_debian:
        raise UsageError("--suite and --mirror belong to --from-debian")
    image = _run(_build(from_debian, suite, mirror, stack, source, tag, network_mode))
    click.echo(f"{image.reference}  {image.digest[:19]}  {image.size_bytes >> 20} MiB")


@group.command(name="list")
def list_() -> None:
    """List the images Whimbrel has built."""
    images = _run(_list())
    if not images:
        click.echo("none; `whimbrel sandbox build` makes the first")
    for image in images:
        click.echo(
            f"{image.reference:40}  {image.kind:6}  {image.digest[7:19]}  "
            f"{image.size_bytes >> 20:6} MiB  {image.created[:10]}"
        )


@group.command()
@click.option("--layers", is_flag=True, help="Only project layers; keep base and stack images.")
@click.option("--named", default="", metavar="PREFIX", help="Only images whose names start so.")
def prune(layers: bool, named: str) -> None:
    """Remove Whimbrel's images, and containers of dead runs.

    Nothing else is touched.
    """
    containers, images = _run(_prune(layers, named))
    for name in containers:
        click.echo(f"container {name}")
    for name in images:
        click.echo(f"image {name}")
    click.echo(f"removed {len(containers)} containers and {len(images)} images")


async def _build(
    from_debian: bool,
    suite: str | None,
    mirror: str | None,
    stack: str | None,
    source: str | None,
    tag: str | None,
    network_mode: str | None,
) -> ImageInfo:
    from ...sandbox.base.errors import SandboxUnavailable
    from ...sandbox.daemon import connect
    from ...sandbox.images import build_base, build_default, build_stack, find_image

    daemon = await connect()
    try:
        base: ImageInfo | None = None
        if from_debian:
            base = await build_base(
                daemon, suite=suite, mirror=mirror, tag=None if stack else tag, report=_report
            )
        elif source:
            base = await find_image(daemon, source)
            if base is None:
                raise SandboxUnavailable(f"the image {source} is not on this machine")
        if stack:
            return await build_stack(
                daemon, stack, base=base, tag=tag, network_mode=network_mode, report=_report
            )
        return base or await build_default(daemon, tag=tag, report=_report)
    finally:
        daemon.close()


async def _list() -> list[ImageInfo]:
    from ...sandbox.daemon import connect
    from ...sandbox.images import list_images

    daemon = await connect()
    try:
        return await list_images(daemon)
    finally:
        daemon.close()


async def _prune(layers_only: bool, named: str) -> tuple[list[str], list[str]]:
    from ...sandbox.daemon import connect
    from ...sandbox.images import prune as prune_images

    daemon = await connect()
    try:
        return await prune_images(daemon, layers_only=layers_only, named=named)
    finally:
        daemon.close()


def _report(line: str) -> None:
    click.echo(line, err=True)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)

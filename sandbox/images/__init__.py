"""Container images for the sandbox: look-up, the Debian base, stacks, project layers.

The SDK is imported only inside the functions, so importing this package is cheap.
"""

from __future__ import annotations

from collections.abc import Callable

from ..base.errors import SandboxUnavailable
from ..daemon import Daemon, connect
from .debian import REPOSITORY, build_base, cannot_build, host_suite
from .info import ImageInfo, find_image, list_images, prune
from .layers import build_layer
from .stacks import STACKS, build_stack

__all__ = [
    "STACKS",
    "ImageInfo",
    "build_base",
    "build_default",
    "build_layer",
    "build_stack",
    "default_image",
    "find_image",
    "list_images",
    "prune",
    "usable_image",
]


async def usable_image(
    image: str | None = None,
    *,
    allow_build: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> ImageInfo:
    """The image a run will use; says why when there is none.

    Args:
        image: the one the person named (it must be there already), or None for the default one.
        allow_build: make the default one now when it is missing (minutes, needs a package mirror
            or a registry).

    Raises:
        SandboxUnavailable: no daemon answers, or no usable image is there or can be made.
    """
    daemon = await connect()
    try:
        if image is not None:
            found = await find_image(daemon, image)
            if found is None:
                raise SandboxUnavailable(
                    f"the container image {image} is not on this machine",
                    hint=f"docker pull {image}, or leave the image out for the default one",
                )
            return found
        found = await default_image(daemon)
        if found:
            return found
        if not allow_build:
            raise SandboxUnavailable(
                "no sandbox image has been built on this machine", hint="run `whimbrel sandbox build` once"
            )
        return await build_default(daemon, report=report)
    finally:
        daemon.close()


async def default_image(daemon: Daemon) -> ImageInfo | None:
    """The base image of the host's suite, else any base or Python image we built, or None."""
    found = await find_image(daemon, f"{REPOSITORY}:{host_suite()}")
    if found:
        return found
    for kind in ("base", "stack"):
        for candidate in await list_images(daemon, kind=kind):
            if kind == "base" or candidate.labels.get("whimbrel.stack") == "python":
                return candidate
    return None


async def build_default(
    daemon: Daemon, *, tag: str | None = None, report: Callable[[str], None] = lambda line: None
) -> ImageInfo:
    """Makes the default image: from Debian packages where possible, else the Python stack from a registry."""
    problem = cannot_build()
    if problem is None:
        return await build_base(daemon, tag=tag, report=report)
    report(f"{problem.message}; using a registry instead")
    return await build_stack(daemon, "python", tag=tag, report=report)

"""What images there are: look-up, listing and removal by our labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from .. import labels
from ..daemon import Daemon, ask


@dataclass(frozen=True)
class ImageInfo:
    """One image as the daemon knows it."""

    reference: str
    """The tag it was asked for or carries (``whimbrel/base:bookworm``), or its id."""
    digest: str
    """The image id, ``sha256:...``: the hash of its content and configuration."""
    kind: str = ""
    """``base``, ``stack`` or ``layer`` for images we built; empty for others."""
    size_bytes: int = 0
    created: str = ""
    """ISO 8601."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables the image sets (PATH and the like)."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


async def find_image(daemon: Daemon, reference: str) -> ImageInfo | None:
    """The local image of that name or id, or None; nothing is pulled."""
    from docker.errors import NotFound

    try:
        found = await ask(f"looking up the image {reference}", daemon.api.inspect_image, reference)
    except NotFound:
        return None
    return _info(reference, cast("dict[str, Any]", found))


async def list_images(daemon: Daemon, *, kind: str | None = None, key: str | None = None) -> list[ImageInfo]:
    """Images we built, newest first, optionally of one kind or with one cache key.

    Images that others build on ours inherit our labels; ours still carry the name we gave them
    (which Podman prefixes with ``localhost/``).
    """
    wanted = [f"{labels.KIND}={kind}" if kind else labels.KIND]
    if key:
        wanted.append(f"{labels.KEY}={key}")
    rows = cast(
        "list[dict[str, Any]]", await ask("listing images", daemon.api.images, filters={"label": wanted})
    )
    found: list[ImageInfo] = []
    for row in sorted(rows, key=lambda row: (-int(row.get("Created") or 0), str(row["Id"]))):
        own = str((row.get("Labels") or {}).get(labels.REFERENCE, ""))
        if own and not {own, f"localhost/{own}"}.isdisjoint(row.get("RepoTags") or []):
            info = await find_image(daemon, own)
            if info is not None:
                found.append(info)
    return found


async def prune(daemon: Daemon, *, layers_only: bool = False, named: str = "") -> tuple[list[str], list[str]]:
    """Removes containers of dead runs and images we built, and nothing else.

    Images a container still uses stay; ``named`` limits the images to names that start so.
    Returns the names of removed containers and images.
    """
    containers = await labels.sweep_leftovers(daemon)
    removed: list[str] = []
    for kind in ("layer",) if layers_only else ("layer", "stack", "base"):
        for image in await list_images(daemon, kind=kind):
            if image.reference.startswith(named) and await remove_image(daemon, image.reference):
                removed.append(image.reference)
    return containers, removed


async def remove_image(daemon: Daemon, reference: str) -> bool:
    """Removes an image unless something still uses it."""
    from docker.errors import APIError, NotFound

    try:
        await ask("removing an image", daemon.api.remove_image, reference)
    except NotFound:
        return False
    except APIError:
        # 409: a container or a child image still uses it; it stays, and a later prune takes it.
        return False
    return True


def split_name(name: str) -> tuple[str, str]:
    """Repository and tag of an image's name; a port in a registry's address is no tag."""
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        return name, "latest"
    return repository, tag


def _info(reference: str, found: dict[str, Any]) -> ImageInfo:
    config = cast("dict[str, Any]", found.get("Config") or {})
    tags = cast("dict[str, str]", config.get("Labels") or {})
    env: dict[str, str] = {}
    for entry in cast("list[str]", config.get("Env") or []):
        name, _, value = entry.partition("=")
        env[name] = value
    return ImageInfo(
        reference=reference,
        digest=str(found.get("Id", "")),
        kind=tags.get(labels.KIND, ""),
        size_bytes=int(found.get("Size") or 0),
        created=str(found.get("Created", "")),
        env=env,
        labels=dict(tags),
    )

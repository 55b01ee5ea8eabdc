"""Temporary folders of image builds: removed at the end, and by the next build after a kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

from ..base.errors import SandboxUnavailable
from ..base.files import atomic_write
from ..labels import owner_is_dead, owner_labels

_PREFIX = "whimbrel-image-"
_OWNER = "owner.json"


@contextlib.asynccontextmanager
async def build_scratch(needed_bytes: int) -> AsyncGenerator[Path]:
    """A folder on a disk with room, for one build at a time per user.

    A second build waits for the first, so that it finds the finished image instead of repeating the work.

    Raises:
        SandboxUnavailable: less than ``needed_bytes`` are free there.
    """
    parent = _parent()
    with (parent / f"{_PREFIX}{os.geteuid()}.lock").open("a") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        await asyncio.to_thread(_remove_dead, parent)
        free = shutil.disk_usage(parent).free
        if free < needed_bytes:
            raise SandboxUnavailable(
                f"not enough disk to build the image: {free >> 20} MiB free in {parent}, "
                f"{needed_bytes >> 20} MiB needed",
                hint="free some, or point TMPDIR at a larger disk",
            )
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            atomic_write(folder / _OWNER, json.dumps(owner_labels("image", "build")).encode())
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _parent() -> Path:
    # /tmp is often a small memory disk; a root file system of half a gigabyte belongs on a real one.
    named = os.environ.get("TMPDIR")
    if named:
        return Path(named)
    large = Path("/var/tmp")
    return large if os.access(large, os.W_OK) else Path(tempfile.gettempdir())


def _remove_dead(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*/"):
        try:
            owner = cast("dict[str, str]", json.loads((folder / _OWNER).read_text()))
        except (OSError, ValueError):
            continue
        if owner_is_dead(owner, running=False):
            shutil.rmtree(folder, ignore_errors=True)

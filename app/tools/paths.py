"""Paths as a model writes them, turned into paths of the workspace or refused in one line."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from ...sandbox.base.errors import ToolError
from .base import ToolContext

__all__ = ["glob_pattern", "printable", "workspace_path", "writable_path"]

_MAX_PATH = 4096
_MAX_NAME_BYTES = 255


def workspace_path(context: ToolContext, given: str) -> str:
    """The path below the workspace's top (forward slashes, "." for the top itself), links resolved.

    Takes relative paths, absolute ones under the place where the sandbox shows the
    workspace, and ``~``. The last component may not exist yet.

    Raises:
        ToolError: it is no path, or leads outside (also through links) or into ``.git``, or may not be read.
    """
    relative = _relative(context, given)
    real = _real(context, given, relative)
    for name in (os.path.normpath(relative), real):
        context.paths.require_readable(name)
    return real


def writable_path(context: ToolContext, given: str) -> str:
    """As ``workspace_path``, for writing: no component may be a symbolic link.

    Raises:
        ToolError: as there, or the path goes through a link; the message names what it points to.
    """
    if given.startswith("artifact:"):
        raise ToolError("kept outputs cannot be written")
    relative = _relative(context, given)
    real = _real(context, given, relative)
    if real == ".":
        raise ToolError(f"{given} is the repository's top, not a file")
    if real != os.path.normpath(relative):
        raise ToolError(
            f"{given} goes through a symbolic link and is not written", hint=f"the file itself is {real}"
        )
    context.paths.require_writable(real)
    return real


def glob_pattern(context: ToolContext, given: str) -> str:
    """A file pattern relative to the workspace's top; takes absolute ones inside it and ``~``.

    Raises:
        ToolError: it is none, or names places outside.
    """
    if given.startswith(("/", "~")):
        return _relative(context, given)
    if not given.strip() or "\0" in given or len(given) > _MAX_PATH:
        raise ToolError(f"not a file pattern: {given[:60]!r}")
    if ".." in given.split("/"):
        raise ToolError(f"{given} leads outside; give a pattern relative to the repository's top")
    return given.removeprefix("./")


def _relative(context: ToolContext, given: str) -> str:
    if len(given) > _MAX_PATH:
        raise ToolError(f"not a path: {len(given)} characters long, starting {given[:40]!r}")
    if not given.strip() or "\0" in given:
        raise ToolError(f"not a path: {given!r}")
    longest = max((len(part.encode("utf-8", "surrogatepass")) for part in given.split("/")), default=0)
    if longest > _MAX_NAME_BYTES:
        raise ToolError(f"not a path: a name of {longest} bytes, starting {given[:40]!r}")
    expanded = given
    if given.startswith("~"):
        expanded = os.path.expanduser(given)  # noqa: PTH111 - an unknown user's name must stay as it is
    return _below_workspace(context, given, expanded) if expanded.startswith("/") else expanded


def _real(context: ToolContext, given: str, relative: str) -> str:
    try:
        real = Path(os.path.realpath(context.workspace.resolve(relative)))
    except (OSError, ValueError) as error:
        raise ToolError(f"not a usable path: {given[:200]!r} ({error})") from error
    top = Path(os.path.realpath(context.workspace.root))
    # resolve() has checked it; a link swapped in since then must not pass either.
    if real != top and top not in real.parents:
        raise ToolError(f"{given} leads outside the workspace through a symbolic link")
    return real.relative_to(top).as_posix()


def printable(path: str) -> str:
    """A file name as text: bytes that are not UTF-8 shown as ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _below_workspace(context: ToolContext, given: str, absolute: str) -> str:
    path = PurePosixPath(os.path.normpath(absolute))
    for top in (context.sandbox.spec.workdir, str(context.workspace.root)):
        if path.is_relative_to(top):
            return path.relative_to(top).as_posix()
    expanded = f"{given} is {absolute}, which" if given != absolute else given
    raise ToolError(
        f"{expanded} lies outside the workspace",
        hint="give a path relative to the repository's top; bash can look at other files of the sandbox",
    )

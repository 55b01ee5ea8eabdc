"""Reading and writing files inside by processes inside.

Done in there and not on the host: the host (perhaps root) would follow the symbolic links
that project code has planted, and paths would mean something else.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from pathlib import PurePosixPath

from ..base.errors import ToolError
from ..protocol import Sandbox

MAX_BYTES = 64 << 20
_PATIENCE_S = 60.0
_MISSING, _DIRECTORY, _SPECIAL, _DENIED = 40, 41, 42, 43

_READ = f"""
if [ -d "$1" ]; then exit {_DIRECTORY}; fi
[ -e "$1" ] || exit {_MISSING}
[ -f "$1" ] || exit {_SPECIAL}
[ -r "$1" ] || exit {_DENIED}
exec cat -- "$1"
"""

# The bytes arrive completely in a file beside the target before the target is touched.
# An existing file is overwritten in place, so that its mode (and a link to it) stays.
_WRITE = f"""
if [ -d "$1" ]; then exit {_DIRECTORY}; fi
if [ -e "$1" ] && [ ! -f "$1" ]; then exit {_SPECIAL}; fi
mkdir -p -- "$(dirname -- "$1")" || exit {_DENIED}
new="$1.new.$$"
trap 'rm -f -- "$new"' EXIT
head -c "$2" > "$new" || exit {_DENIED}
[ "$(wc -c < "$new")" -eq "$2" ] || exit 1
if [ "$3" = x ]; then chmod 0755 "$new"; fi
if [ -e "$1" ]; then
    cat -- "$new" > "$1" || exit {_DENIED}
    if [ "$3" = x ]; then chmod a+x -- "$1"; fi
else
    mv -f -- "$new" "$1" || exit {_DENIED}
fi
"""


async def read_inside(sandbox: Sandbox, path: str) -> bytes:
    """Content of a regular file at an absolute path inside.

    Raises:
        FileNotFoundError, IsADirectoryError, PermissionError, OSError: as for a local file.
        ToolError: more than 64 MiB, or no end of it within a minute.
    """
    code, data, errors = await _ask(sandbox, [_READ, "sh", path], path, b"", MAX_BYTES)
    if len(data) > MAX_BYTES:
        raise _too_large(path)
    _check(code, path, errors)
    return data


async def write_inside(sandbox: Sandbox, path: str, data: bytes, *, executable: bool) -> None:
    """Writes a file below the workspace or /tmp; parents are made.

    Raises:
        ToolError: the path is elsewhere, or ``data`` larger than 64 MiB.
        IsADirectoryError, PermissionError, OSError: as for a local file.
    """
    allowed = (sandbox.spec.workdir, "/tmp")
    if not any(PurePosixPath(path).is_relative_to(place) and path != place for place in allowed):
        raise ToolError(f"{path} is outside the workspace and the temporary directory")
    if len(data) > MAX_BYTES:
        raise _too_large(path)
    size, mode = str(len(data)), "x" if executable else "-"
    code, _, errors = await _ask(sandbox, [_WRITE, "sh", path, size, mode], path, data, 0)
    _check(code, path, errors)


async def _ask(
    sandbox: Sandbox, script: list[str], path: str, data: bytes, limit: int
) -> tuple[int, bytes, bytes]:
    """Runs a script with ``data`` as its input; returns exit code, output (cut beyond ``limit``), errors."""
    channel = await sandbox.open_channel(["/bin/sh", "-c", *script], cwd="/")
    output = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            # A helper that ended early says why with its exit code.
            with contextlib.suppress(ToolError):
                await channel.send(data)
            while chunk := await channel.receive(1 << 20):
                output += chunk
                if len(output) > limit:
                    break
    except TimeoutError as error:
        # What is no pipe when it is looked at can be one when it is opened.
        raise ToolError(f"{path} did not come to an end within {_PATIENCE_S:g} s") from error
    finally:
        code = await channel.close()
    return code, bytes(output), channel.errors()


def _too_large(path: str) -> ToolError:
    return ToolError(f"{path} is larger than {MAX_BYTES >> 20} MiB", hint="read a part of it with a command")


def _check(exit_code: int, path: str, errors: bytes) -> None:
    match exit_code:
        case 0:
            return
        case 40:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        case 41:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        case 42:
            raise OSError(errno.EINVAL, "not a regular file", path)
        case 43:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        case _:
            said = errors.decode("utf-8", "replace").strip().splitlines()
            raise OSError(errno.EIO, said[-1] if said else f"exit code {exit_code}", path)
